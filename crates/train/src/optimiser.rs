//! AdamW with f32 state, the clip of the global norm, and the learning-rate schedule.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor, Var};

/// AdamW (Loshchilov and Hutter 2019) over named variables.
pub struct AdamW {
    settings: AdamWSettings,
    step: usize,
    moments: BTreeMap<String, Moments>,
}

/// What does not change during a run.
#[derive(Clone, Copy, Debug)]
pub struct AdamWSettings {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

impl AdamWSettings {
    /// The usual moments (0.9, 0.999, 1e-8) with this decay.
    pub fn with_decay(weight_decay: f64) -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay,
        }
    }
}

struct Moments {
    first: Tensor,
    second: Tensor,
}

impl AdamW {
    /// An optimiser that has made no step.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn new(settings: AdamWSettings, vars: &BTreeMap<String, Var>) -> Result<Self> {
        let zero = |var: &Var| -> Result<Moments> {
            Ok(Moments {
                first: var.zeros_like()?.detach(),
                second: var.zeros_like()?.detach(),
            })
        };
        let moments = vars
            .iter()
            .map(|(name, var)| Ok((name.clone(), zero(var)?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            settings,
            step: 0,
            moments,
        })
    }

    /// Steps made.
    pub fn steps(&self) -> usize {
        self.step
    }

    /// Moves every variable against its gradient.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn step(
        &mut self,
        vars: &BTreeMap<String, Var>,
        gradients: &BTreeMap<String, Tensor>,
        rate: f64,
    ) -> Result<()> {
        self.step += 1;
        let AdamWSettings {
            beta1,
            beta2,
            epsilon,
            weight_decay,
        } = self.settings;
        let correct = |beta: f64| 1.0 - beta.powi(self.step as i32);
        let (correct1, correct2) = (correct(beta1), correct(beta2));
        for (name, var) in vars {
            let (Some(gradient), Some(moments)) = (gradients.get(name), self.moments.get_mut(name))
            else {
                candle_core::bail!("no gradient or state for `{name}`");
            };
            moments.first = ((&moments.first * beta1)? + (gradient * (1.0 - beta1))?)?;
            moments.second = ((&moments.second * beta2)? + (gradient.sqr()? * (1.0 - beta2))?)?;
            let root = ((&moments.second / correct2)?.sqrt()? + epsilon)?;
            let update = ((&moments.first / correct1)? / root)?;
            let decayed = (var.as_detached_tensor() * (1.0 - rate * weight_decay))?;
            var.set(&(decayed - (update * rate)?)?)?;
        }
        Ok(())
    }

    /// The moments under `first.NAME` and `second.NAME`, for a checkpoint.
    pub fn state(&self) -> BTreeMap<String, Tensor> {
        let pairs = self.moments.iter().flat_map(|(name, m)| {
            [
                (format!("first.{name}"), m.first.clone()),
                (format!("second.{name}"), m.second.clone()),
            ]
        });
        pairs.collect()
    }

    /// Puts back what [`Self::state`] gave after `step` steps; `false` if a tensor is missing or has
    /// another shape.
    pub fn restore(&mut self, step: usize, mut state: BTreeMap<String, Tensor>) -> bool {
        for (name, moments) in &mut self.moments {
            let first = state.remove(&format!("first.{name}"));
            let second = state.remove(&format!("second.{name}"));
            match (first, second) {
                (Some(first), Some(second))
                    if first.dims() == moments.first.dims()
                        && second.dims() == moments.second.dims() =>
                {
                    *moments = Moments { first, second };
                }
                _ => return false,
            }
        }
        self.step = step;
        true
    }
}

/// Scales gradients down so that their global norm is at most `limit`; returns the norm before.
///
/// # Errors
/// When the backend fails.
pub fn clip(gradients: &mut BTreeMap<String, Tensor>, limit: f64) -> Result<f64> {
    if gradients.is_empty() {
        return Ok(0.0);
    }
    let squares = gradients.values().map(|gradient| gradient.sqr()?.sum_all());
    // Fetched together: on a device every look at a number waits for all work before it.
    let squares = Tensor::stack(&squares.collect::<Result<Vec<_>>>()?, 0)?.to_vec1::<f32>()?;
    let norm = squares.into_iter().map(f64::from).sum::<f64>().sqrt();
    if norm > limit {
        for gradient in gradients.values_mut() {
            *gradient = (&*gradient * (limit / (norm + 1e-6)))?;
        }
    }
    Ok(norm)
}

/// Linear rise over `warmup` steps, then a cosine down to `min_share` of the peak at the last step.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Peak learning rate.
    pub peak: f64,
    /// Steps of linear rise.
    pub warmup: usize,
    /// All steps.
    pub steps: usize,
    /// Share of the peak that is left at the end.
    pub min_share: f64,
}

impl Schedule {
    /// The rate of step `step`, counted from 1.
    pub fn rate(&self, step: usize) -> f64 {
        if step <= self.warmup {
            return self.peak * step as f64 / self.warmup as f64;
        }
        let done = (step - self.warmup - 1) as f64
            / (self.steps.saturating_sub(self.warmup + 1)).max(1) as f64;
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos());
        self.peak * (self.min_share + (1.0 - self.min_share) * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let schedule = Schedule {
            peak: 1.0,
            warmup: 4,
            steps: 14,
            min_share: 0.1,
        };
        assert_eq!(schedule.rate(1), 0.25);
        assert_eq!(schedule.rate(4), 1.0);
        assert_eq!(schedule.rate(5), 1.0);
        assert!((schedule.rate(14) - 0.1).abs() < 1e-12);
        assert!((5..14).all(|s| schedule.rate(s + 1) < schedule.rate(s)));
        let single = Schedule {
            peak: 2.0,
            warmup: 0,
            steps: 1,
            min_share: 0.0,
        };
        assert_eq!(single.rate(1), 2.0);
    }
}
