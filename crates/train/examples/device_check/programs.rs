//! What programs ask for: replies under a schema, and embeddings.

use std::ops::ControlFlow;
use std::path::Path;

use candle_core::{Device, Tensor};
use mem_model::embed::{Embedder, Kind};
use mem_model::generate::{DeviceKind, LocalGenerator, load_encoder};
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_schema::generator::{ChatMessage, Finish, Generator, Reply, Request, Sampling, Work};
use mem_schema::transcript::Role;
use serde_json::json;

use super::{Result, Side, error, fixture, reference};

/// Requests from a list; replies by number.
struct List(
    std::vec::IntoIter<Request<'static>>,
    Vec<Option<mem_model::error::Result<Reply>>>,
);

impl Work<'static, mem_model::error::Error> for List {
    fn next(&mut self) -> Option<Request<'static>> {
        self.0.next()
    }

    fn reply(&mut self, number: usize, reply: mem_model::error::Result<Reply>) -> ControlFlow<()> {
        if let Some(place) = self.1.get_mut(number) {
            *place = Some(reply);
        }
        ControlFlow::Continue(())
    }
}

/// Greedy replies under a schema, several rows at a time. In f32 the share that differs from the reference's; in other
/// types, which may choose otherwise where two tokens are about equally likely, the share that is no whole JSON.
pub(super) fn replies(side: &Side, path: &Path) -> Result<f64> {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 12 });
    let record = json!({
        "type": "object",
        "properties": { "content": text, "reason": text },
        "required": ["content", "reason"],
        "additionalProperties": false,
    });
    let request = |i: usize| Request {
        messages: vec![ChatMessage {
            role: Role::User,
            content: "Mina moved to Utrecht in March. ".repeat(i % 3 + 1 + i / 3),
        }],
        shared_bytes: 0,
        schema: Some(json!({ "type": "array", "items": record, "minItems": 2, "maxItems": 3 })),
        max_new_tokens: 300,
        sampling: Sampling::Greedy,
        stop: None,
    };
    let run = |model: Model| -> Result<Vec<Reply>> {
        let generator = LocalGenerator::new(model, load_encoder(path)?, Some(4));
        let requests: Vec<_> = (0..7).map(request).collect();
        let places = requests.iter().map(|_| None).collect();
        let mut list = List(requests.into_iter(), places);
        generator.generate_all(&mut list);
        let replies = list.1.into_iter();
        let replies = replies.map(|reply| Ok(reply.ok_or("a reply is missing")??));
        replies.collect()
    };
    let found = run(side.load(path)?)?;
    let bad = match side.is_f32() {
        true => {
            let expected = run(reference(path)?)?;
            found.iter().zip(&expected).filter(|(a, b)| a != b).count()
        }
        false => {
            let whole = |reply: &&Reply| {
                reply.finish == Finish::End
                    && serde_json::from_str::<Vec<serde_json::Value>>(&reply.text).is_ok()
            };
            found.len() - found.iter().filter(whole).count()
        }
    };
    Ok(bad as f64 / found.len() as f64)
}

pub(super) fn embeddings(side: &Side, name: &str) -> Result<f64> {
    let texts = [
        "Mina moved to Utrecht.",
        "a",
        "The dog is called Bori, and he does not like the rain at all.",
    ];
    let vectors = |kind, compute| -> Result<Vec<Vec<f32>>> {
        let embedder = Embedder::load(&fixture(name), kind, compute)?;
        let found = embedder.embed(&texts, Kind::Passage)?;
        Ok(found.into_iter().map(|found| found.vector).collect())
    };
    let found = vectors(side.kind, side.compute)?;
    let expected = vectors(DeviceKind::Cpu, Compute::F32)?;
    let mut worst: f64 = 0.0;
    for (found, expected) in found.iter().zip(&expected) {
        let tensor = |values: &[f32]| Tensor::new(values, &Device::Cpu);
        worst = worst.max(error(&tensor(found)?, &tensor(expected)?)?);
    }
    Ok(worst)
}
