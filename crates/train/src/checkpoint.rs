//! The state of a run on disk: adapter, optimiser moments and step, written beside and renamed as one
//! folder, so that a run killed at any moment leaves the checkpoint before or the new one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use mem_model::adapter::{self, save_tensors, write_beside};
use mem_model::error::{Cause, plain};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const STATE: &str = "state.json";
const ADAPTER: &str = "adapter.safetensors";
pub(crate) const OPTIMISER: &str = "optimiser.safetensors";

/// Which run a checkpoint belongs to and how far it got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Optimiser steps made.
    pub step: usize,
    /// The recipe, without where it reads and writes and how often it measures and saves.
    pub recipe: String,
    /// [`crate::examples::Examples::fingerprint`]
    pub data: String,
    /// [`crate::base::fingerprint`] of the base model.
    pub weights: String,
    /// Type of the products, as `--dtype` takes it.
    pub compute: String,
    /// Where they are computed, as `--device` takes it.
    pub device: String,
    /// Dev loss before the first step, nats.
    pub dev_loss_before: f64,
    /// Latest dev loss.
    pub dev_loss: f64,
}

/// A checkpoint in memory.
pub struct Checkpoint {
    /// Run and step.
    pub state: State,
    /// Adapter tensors.
    pub adapter: BTreeMap<String, Tensor>,
    /// Optimiser moments.
    pub optimiser: BTreeMap<String, Tensor>,
}

fn folders(output: &Path) -> [PathBuf; 3] {
    ["checkpoint", "checkpoint.new", "checkpoint.old"].map(|name| output.join(name))
}

impl Checkpoint {
    /// Replaces the checkpoint of the run folder `output`.
    ///
    /// # Errors
    /// When the disk is full or not writable; the checkpoint before stays.
    pub fn save(&self, output: &Path) -> Result<()> {
        let [current, new, old] = folders(output);
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        remove(&new)?;
        std::fs::create_dir_all(&new).map_err(fault(&new))?;
        let write = || -> Result<()> {
            save_tensors(&new.join(ADAPTER), &self.adapter)?;
            save_tensors(&new.join(OPTIMISER), &self.optimiser)?;
            let state =
                serde_json::to_vec_pretty(&self.state).map_err(|e| fault(&new)(e.into()))?;
            Ok(write_beside(&new.join(STATE), &state)?)
        };
        if let Err(error) = write() {
            let _ = std::fs::remove_dir_all(&new);
            return Err(error);
        }
        // Without a current folder the old one is the only checkpoint until the new one has its name.
        if current.exists() {
            remove(&old)?;
            std::fs::rename(&current, &old).map_err(fault(&current))?;
        }
        std::fs::rename(&new, &current).map_err(fault(&new))?;
        remove(&old)
    }

    /// The checkpoint of the run folder `output`, if there is one.
    ///
    /// # Errors
    /// When it is damaged, or an earlier version wrote it.
    pub fn load(output: &Path, device: &Device) -> Result<Option<Self>> {
        let [current, _, old] = folders(output);
        // Killed between the two renames, a run leaves only the old folder, which is complete.
        let Some(folder) = [current, old].into_iter().find(|f| f.join(STATE).exists()) else {
            return Ok(None);
        };
        let damaged = |file: &str, source: Cause| Error::Checkpoint {
            path: folder.join(file),
            source,
        };
        let state = std::fs::read(folder.join(STATE)).map_err(|e| damaged(STATE, e.into()))?;
        let state: serde_json::Value =
            serde_json::from_slice(&state).map_err(|e| damaged(STATE, e.into()))?;
        if state.get("step").is_some() && state.get("weights").is_none() {
            let problem = "an earlier version wrote it, which did not note the model's weights";
            return Err(damaged(STATE, problem.into()));
        }
        let state = serde_json::from_value(state).map_err(|e| damaged(STATE, e.into()))?;
        let tensors = |file: &str| -> Result<BTreeMap<String, Tensor>> {
            let loaded = candle_core::safetensors::load(folder.join(file), &Device::Cpu);
            let loaded = loaded.map_err(|e| damaged(file, plain(e).into()))?;
            let usable = |(name, tensor): (String, Tensor)| {
                if tensor.dtype() != DType::F32 || !adapter::is_finite(&tensor, 1.0)? {
                    let problem = format!("tensor `{name}` holds values that are no numbers");
                    return Err(damaged(file, problem.into()));
                }
                Ok((name, tensor.to_device(device)?))
            };
            loaded.into_iter().map(usable).collect()
        };
        Ok(Some(Self {
            state,
            adapter: tensors(ADAPTER)?,
            optimiser: tensors(OPTIMISER)?,
        }))
    }
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::Write {
            path: folder.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
