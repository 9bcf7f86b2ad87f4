//! Choice of the next token from its logits.

use mem_schema::generator::Sampling;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::constraint::Mask;
use crate::error::{Error, Result};

/// Chooses tokens one after another; a random one owns its seeded generator, so equal requests give
/// equal replies whatever else runs.
pub struct Sampler(Kind);

enum Kind {
    Greedy,
    Random {
        temperature: f64,
        top_p: f64,
        rng: Box<ChaCha12Rng>,
    },
}

impl Sampler {
    /// A sampler for one reply.
    ///
    /// # Errors
    /// [`Error::Sampling`] unless the temperature is finite and above 0 and `top_p` lies in (0, 1].
    pub fn new(sampling: Sampling) -> Result<Self> {
        let Sampling::Random {
            temperature,
            top_p,
            seed,
        } = sampling
        else {
            return Ok(Self(Kind::Greedy));
        };
        if !(temperature.is_finite() && temperature > 0.0) {
            let range = "a number above 0 (use greedy sampling for 0)";
            return Err(Error::Sampling {
                name: "temperature",
                value: temperature,
                range,
            });
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(Error::Sampling {
                name: "top_p",
                value: top_p,
                range: "above 0 and at most 1",
            });
        }
        let rng = Box::new(ChaCha12Rng::seed_from_u64(seed));
        Ok(Self(Kind::Random {
            temperature,
            top_p,
            rng,
        }))
    }

    /// The next token's id, one of those that `allowed` holds, from logits (V).
    ///
    /// # Errors
    /// [`Error::Logits`] when one that counts is NaN or `+inf`, none is allowed, or the mask has another width.
    pub fn sample(&mut self, logits: &[f32], allowed: Option<&Mask>) -> Result<u32> {
        let best = greedy(logits, allowed)?;
        let Kind::Random {
            temperature,
            top_p,
            rng,
        } = &mut self.0
        else {
            return Ok(best);
        };
        let mut masked = logits.to_vec();
        if let Some(mask) = allowed {
            for (logits, &word) in masked.chunks_mut(32).zip(mask.words()) {
                let hidden = logits.iter_mut().enumerate();
                let hidden = hidden.filter(|&(bit, _)| word >> bit & 1 == 0);
                hidden.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
            }
        }
        let max = f64::from(logits[best as usize]);
        let weight = |logit: f32| ((f64::from(logit) - max) / *temperature).exp();
        let draw = rng.random::<f64>();
        Ok(nucleus(&masked, weight, *top_p, draw).unwrap_or(best))
    }
}

/// The likeliest of the allowed tokens; ties go to the lower id. Without a mask all are allowed. The logits (V) are
/// read in place, whole words of the mask at a time: a vocabulary is wide, and this is done for every token.
///
/// # Errors
/// [`Error::Logits`] when an allowed token's logit is NaN or `+inf`, all are `-inf` or forbidden, or the mask has
/// another width.
pub fn greedy(logits: &[f32], allowed: Option<&Mask>) -> Result<u32> {
    let refuse = |problem: String| Error::Logits {
        width: logits.len(),
        problem,
    };
    if let Some(mask) = allowed.filter(|mask| mask.width() != logits.len()) {
        return Err(refuse(format!("the grammar knows {}", mask.width())));
    }
    let mut best = (0, f32::NEG_INFINITY);
    for (index, part) in logits.chunks(32).enumerate() {
        let word = allowed.map_or(u32::MAX, |mask| mask.words()[index]);
        if word == 0 {
            continue;
        }
        // Most words inside a text are whole: then no logit has to be looked at alone unless it leads.
        if word == u32::MAX {
            let usable = part.iter().fold(true, |all, v| all & (*v < f32::INFINITY));
            let max = part.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            if usable && max <= best.1 {
                continue;
            }
        }
        for (bit, &logit) in part
            .iter()
            .enumerate()
            .filter(|(bit, _)| word >> bit & 1 == 1)
        {
            let id = index * 32 + bit;
            if logit.is_nan() || logit == f32::INFINITY {
                return Err(refuse(format!(
                    "that of token {id} is {logit}: the model or the adapter is damaged; check the model with \
                     `memtrain models verify` or fetch it again, and try without the adapter"
                )));
            }
            if logit > best.1 {
                best = (id, logit);
            }
        }
    }
    if best.1 == f32::NEG_INFINITY {
        return Err(refuse("every token is forbidden".to_owned()));
    }
    Ok(best.0 as u32)
}

/// Draws from the smallest set of likeliest tokens with at least `top_p` of the weight; `draw` in
/// [0, 1) picks within the set. `None` when rounding leaves nothing to pick.
fn nucleus(logits: &[f32], weight: impl Fn(f32) -> f64, top_p: f64, draw: f64) -> Option<u32> {
    let weights = || logits.iter().map(|&logit| weight(logit)).enumerate();
    let total: f64 = weights().map(|(_, weight)| weight).sum();
    let mut kept: Vec<(usize, f64)>;
    let mut mass = 0.0;
    if top_p < 1.0 {
        // All tokens below this weight together are lighter than what top_p leaves out, so none of
        // them is in the set. Without it the whole vocabulary would be sorted for each token.
        let floor = total * (1.0 - top_p) / logits.len() as f64;
        kept = weights().filter(|&(_, weight)| weight >= floor).collect();
        kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut count = 0;
        while count < kept.len() && mass < top_p * total {
            mass += kept[count].1;
            count += 1;
        }
        kept.truncate(count);
    } else {
        kept = weights().filter(|&(_, weight)| weight > 0.0).collect();
        mass = total;
    }
    let mut left = draw * mass;
    for &(id, weight) in &kept {
        left -= weight;
        if left < 0.0 {
            return Some(id as u32);
        }
    }
    kept.last().map(|&(id, _)| id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(temperature: f64, top_p: f64, seed: u64) -> Sampler {
        Sampler::new(Sampling::Random {
            temperature,
            top_p,
            seed,
        })
        .unwrap()
    }

    #[test]
    fn greedy_takes_the_lower_id_of_a_tie() {
        assert_eq!(greedy(&[0.5, 2.0, 2.0, -1.0], None).unwrap(), 1);
        assert_eq!(greedy(&[f32::NEG_INFINITY, -3.0e38], None).unwrap(), 1);
    }

    #[test]
    fn a_logit_that_is_no_number_says_what_to_do() {
        let message = greedy(&[0.0, f32::NAN], None).unwrap_err().to_string();
        assert!(message.contains("token 1 is NaN"), "{message}");
        assert!(message.contains("`memtrain models verify`"), "{message}");
    }

    #[test]
    fn unusable_logits_are_errors() {
        for logits in [
            &[0.0, f32::NAN][..],
            &[f32::INFINITY, 0.0],
            &[f32::NEG_INFINITY; 3],
            &[],
        ] {
            assert!(
                matches!(greedy(logits, None), Err(Error::Logits { .. })),
                "{logits:?}"
            );
            assert!(
                random(1.0, 0.9, 1).sample(logits, None).is_err(),
                "{logits:?}"
            );
        }
    }

    #[test]
    fn settings_out_of_range_are_errors() {
        for (temperature, top_p) in [
            (0.0, 1.0),
            (-1.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, 0.0),
            (1.0, 1.1),
        ] {
            assert!(
                Sampler::new(Sampling::Random {
                    temperature,
                    top_p,
                    seed: 0
                })
                .is_err()
            );
        }
    }

    #[test]
    fn equal_seeds_give_equal_draws() {
        let logits: Vec<f32> = (0..100).map(|i| (i as f32 * 0.7).sin()).collect();
        let draw = |seed| {
            let mut sampler = random(1.3, 0.95, seed);
            (0..50)
                .map(|_| sampler.sample(&logits, None).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_follow_the_tempered_distribution() {
        // At temperature 2 the weights are 1 : 2 : 4, and the forbidden token never comes.
        let logits = [0.0, 2.0 * 2f32.ln(), f32::NEG_INFINITY, 2.0 * 4f32.ln()];
        let mut sampler = random(2.0, 1.0, 3);
        let mut counts = [0u32; 4];
        for _ in 0..7000 {
            counts[sampler.sample(&logits, None).unwrap() as usize] += 1;
        }
        assert_eq!(counts[2], 0);
        // Standard deviations are below 42, so 200 is far out.
        for (count, expected) in [(counts[0], 1000), (counts[1], 2000), (counts[3], 4000)] {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }

    #[test]
    fn top_p_keeps_the_smallest_sufficient_set() {
        let logits = [1f32.ln(), 5f32.ln(), 4f32.ln()];
        let kept = |top_p| {
            let mut sampler = random(1.0, top_p, 11);
            let mut seen: Vec<u32> = (0..300)
                .map(|_| sampler.sample(&logits, None).unwrap())
                .collect();
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        assert_eq!(kept(0.4), [1]);
        assert_eq!(kept(0.8), [1, 2]);
        assert_eq!(kept(0.95), [0, 1, 2]);
    }
}
