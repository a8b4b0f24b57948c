use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The probability that a standard normal value is at most `z`.
pub fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The standard normal value below which a share `p` lies, 0 < p < 1.
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// The value of Student's t with `freedom` degrees of freedom below which a share `p` lies (Student 1908); the normal one from a
/// million degrees on, and where the degrees are not above zero there is none.
pub fn student_quantile(p: f64, freedom: f64) -> Option<f64> {
    if freedom >= 1e6 {
        return Some(normal_quantile(p));
    }
    StudentsT::new(0.0, 1.0, freedom).ok().map(|student| student.inverse_cdf(p))
}
