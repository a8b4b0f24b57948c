use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// One execution of one cell, in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which pass, from 1.
    pub pass: u32,
    /// Which cell, as an index into the plan's cells.
    pub cell: usize,
}

/// The order of a run: every pass sweeps over all cells, shuffled anew. The control is shuffled like every other
/// cell, so that its place in a pass says nothing.
///
/// The same seed gives the same order everywhere and always: each pass has its own stream of ChaCha8, seeded by the
/// seed's eight bytes, and the shuffle is Fisher and Yates's in Durstenfeld's form (CACM 1964, Algorithm 235). A
/// pass does not depend on how many came before it, so a run may be resumed or prolonged.
pub fn order(cells: usize, passes: u32, seed: u64) -> Vec<Step> {
    let mut steps = Vec::with_capacity(cells.saturating_mul(passes as usize));
    for pass in 1..=passes {
        steps.extend(shuffled(cells, pass, seed).into_iter().map(|cell| Step { pass, cell }));
    }
    steps
}

fn shuffled(cells: usize, pass: u32, seed: u64) -> Vec<usize> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(u64::from(pass));
    let mut order: Vec<usize> = (0..cells).collect();
    for last in (1..cells).rev() {
        let other = below(&mut rng, last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

/// A number below `bound`, each as likely as the others to within 2^-40 or so: the high half of a 128-bit product
/// (Lemire, "Fast random integer generation in an interval", 2019, without its rejection step, which changes
/// nothing that one could see for bounds this small).
fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pass_of(steps: &[Step], pass: u32) -> Vec<usize> {
        steps.iter().filter(|step| step.pass == pass).map(|step| step.cell).collect()
    }

    #[test]
    fn a_seed_gives_the_same_order_for_ever() {
        let steps = order(8, 2, 20_261_010);
        assert_eq!(pass_of(&steps, 1), PINNED[0]);
        assert_eq!(pass_of(&steps, 2), PINNED[1]);
    }

    /// By an independent implementation of ChaCha8 and of the shuffle.
    const PINNED: [[usize; 8]; 2] = [[3, 1, 4, 2, 5, 0, 6, 7], [6, 5, 2, 0, 7, 1, 3, 4]];

    #[test]
    fn a_longer_run_begins_like_a_shorter_one() {
        assert_eq!(order(20, 5, 7)[..40], order(20, 2, 7));
    }

    #[test]
    fn each_place_is_equally_likely() {
        // Cell 0 over 6,000 seeds and 6 places: 1,000 expected in each, standard deviation 29.
        let mut places = [0u32; 6];
        for seed in 0..6_000 {
            places[order(6, 1, seed).iter().position(|step| step.cell == 0).unwrap()] += 1;
        }
        assert!(places.iter().all(|count| (850..1_150).contains(count)), "{places:?}");
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(order(0, 3, 1), []);
        assert_eq!(order(3, 0, 1), []);
    }

    proptest! {
        #[test]
        fn every_pass_holds_every_cell_once(cells in 0usize..60, passes in 0u32..5, seed: u64) {
            let steps = order(cells, passes, seed);
            prop_assert_eq!(steps.len(), cells * passes as usize);
            for pass in 1..=passes {
                let mut cells_of = pass_of(&steps, pass);
                cells_of.sort_unstable();
                prop_assert_eq!(cells_of, (0..cells).collect::<Vec<_>>());
            }
        }
    }
}
