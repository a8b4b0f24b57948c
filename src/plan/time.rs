use std::time::Duration;

/// A time as people say it: `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub fn human_time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..1 => format!("{} ms", time.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
