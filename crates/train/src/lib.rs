//! LoRA supervised fine-tuning.
