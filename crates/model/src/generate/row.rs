//! One reply that is being written: its tokens, what of them is computed, its grammar.

use std::mem::take;

use mem_schema::generator::{Finish, Reply, Request, Stop};

use crate::cache::KvCache;
use crate::constraint::{Constraint, Mask};
use crate::error::{Error, Result};
use crate::sampling::Sampler;
use crate::tokenizer::{TextStream, Tokenizer};

use super::LocalGenerator;
use super::draft::{Acceptance, guess};
use super::engine::PART_TOKENS;

/// A reply between its request and its end. Each step it feeds known tokens that are not computed yet and, once
/// those are the last, drafts behind them; see [`Row::plan`].
pub(super) struct Row<'a> {
    /// Position of its request among all.
    pub(super) number: usize,
    /// Keys and values of the first tokens.
    pub(super) cache: KvCache,
    /// How it ended, once it has.
    pub(super) end: Option<Result<Finish>>,
    tokenizer: &'a Tokenizer,
    stop: Option<Stop<'a>>,
    sampler: Sampler,
    grammar: Option<Constraint>,
    acceptance: Acceptance,
    /// Prompt and reply so far.
    tokens: Vec<u32>,
    prompt_tokens: usize,
    /// Tokens at the beginning that other prompts share: a cut between parts of the opening.
    shared: usize,
    /// Tokens known before the first choice: the prompt and what the grammar forces after it.
    opening: usize,
    /// Most tokens that the reply can have.
    room: usize,
    text: TextStream,
    /// Of this step: known tokens that are fed.
    fed: usize,
    /// Of this step: drafted groups, each a guess and the tokens that the grammar forces after it.
    drafts: Vec<Vec<u32>>,
    /// Of this step: what may follow the known tokens, and what may follow each group.
    masks: Vec<Mask>,
}

impl<'a> Row<'a> {
    /// A row that starts with an empty cache; what its grammar forces from the start is part of it.
    pub(super) fn new(
        generator: &'a LocalGenerator,
        number: usize,
        request: Request<'a>,
    ) -> Result<Self> {
        let tokens = generator.encoder.encode_prompt(&request.messages)?;
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let context = generator.context_length();
        if tokens.len() >= context {
            return Err(Error::PromptTooLong {
                tokens: tokens.len(),
                context,
            });
        }
        let shared =
            generator
                .encoder
                .shared_ids(&request.messages, request.shared_bytes, &tokens)?;
        let grammar = request
            .schema
            .map(|schema| generator.constraint(&schema))
            .transpose()?;
        let mut row = Self {
            number,
            cache: KvCache::new(generator.model.config().layers),
            end: None,
            tokenizer: &generator.encoder.tokenizer,
            stop: request.stop,
            sampler: Sampler::new(request.sampling)?,
            grammar,
            acceptance: Acceptance::new(),
            prompt_tokens: tokens.len(),
            shared: shared.min(tokens.len() - 1),
            opening: 0,
            room: request.max_new_tokens.min(context - tokens.len()),
            tokens,
            text: TextStream::default(),
            fed: 0,
            drafts: Vec::new(),
            masks: Vec::new(),
        };
        let forced = row.forced()?;
        row.end = row.take(forced).map(Ok);
        row.opening = row.tokens.len();
        Ok(row)
    }

    /// Tokens of the prompt and the reply so far.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens at the beginning that other prompts share.
    pub(super) fn shared(&self) -> &[u32] {
        &self.tokens[..self.shared]
    }

    /// Whether it has not read all of its opening yet. What is computed of an opening and what of a reply may differ
    /// in rounding, and so may differently cut parts of an opening: the cuts depend on the row alone.
    pub(super) fn reads(&self) -> bool {
        self.cache.len() < self.opening
    }

    /// Known tokens that are not computed yet: at least one.
    fn pending(&self) -> usize {
        self.tokens.len() - self.cache.len()
    }

    /// Sets which known tokens this step feeds: all, or the next part of the opening. A row that is still reading asks
    /// here whether it should stop.
    pub(super) fn plan(&mut self) {
        self.drafts.clear();
        self.masks.clear();
        self.fed = self.pending();
        if self.reads() {
            let at = self.cache.len();
            let (start, end) = match at < self.shared {
                true => (0, self.shared),
                false => (self.shared, self.opening),
            };
            let part = start + ((at - start) / PART_TOKENS + 1) * PART_TOKENS;
            self.fed = part.min(end) - at;
            if self.wants_to_stop() {
                self.end = Some(Ok(Finish::Stopped));
                self.fed = 0;
            }
        }
    }

    /// Known tokens that this step feeds.
    pub(super) fn fed(&self) -> usize {
        self.fed
    }

    /// Whether the step ends in a choice.
    pub(super) fn chooses(&self) -> bool {
        self.fed > 0 && self.fed == self.pending()
    }

    /// Drafts tokens that the grammar allows, as far as that is worth it while `rows` rows choose. The grammar stays
    /// behind the last of them.
    pub(super) fn draft(&mut self, rows: usize) -> Result<()> {
        let known = self.tokens.len();
        let left = self.room - (known - self.prompt_tokens);
        // The last token of the reply is chosen, not drafted.
        let most = self.acceptance.draft_len(rows).min(left.saturating_sub(1));
        if most == 0 {
            self.acceptance.recover();
        }
        let drafted = self.draft_to(known + most);
        self.tokens.truncate(known);
        drafted
    }

    fn draft_to(&mut self, length: usize) -> Result<()> {
        while self.tokens.len() < length {
            let Some(token) = guess(&self.tokens).filter(|&token| !self.is_end(token)) else {
                break;
            };
            if let Some(grammar) = &mut self.grammar
                && grammar.try_accept(&[token])? == 0
            {
                break;
            }
            let mut group = vec![token];
            group.extend(self.forced()?);
            if let Some(grammar) = self.grammar.as_mut().filter(|g| g.is_finished()) {
                grammar.take_back(group.len())?;
                break;
            }
            self.tokens.extend(&group);
            self.drafts.push(group);
        }
        Ok(())
    }

    /// The tokens to feed: known ones, then drafts.
    pub(super) fn feed(&self, ids: &mut Vec<u32>) {
        ids.extend(&self.tokens[self.cache.len()..][..self.fed]);
        ids.extend(self.drafts.iter().flatten());
    }

    /// Positions among the fed tokens whose logits are wanted: the last known one and the last of each group, if the
    /// step ends in a choice.
    pub(super) fn wanted(&self) -> Vec<usize> {
        if !self.chooses() {
            return Vec::new();
        }
        let mut wanted = vec![self.fed - 1];
        for group in &self.drafts {
            wanted.push(wanted[wanted.len() - 1] + group.len());
        }
        wanted
    }

    /// The cache, for the forward pass, and what can be done beside that: the masks.
    pub(super) fn split(&mut self) -> (&mut KvCache, MaskTask<'_>) {
        let chooses = self.chooses();
        let task = MaskTask {
            grammar: self.grammar.as_mut().filter(|_| chooses),
            drafts: &self.drafts,
            masks: &mut self.masks,
            end: &mut self.end,
        };
        (&mut self.cache, task)
    }

    /// Chooses from the logits (`[M, V]`) of the wanted positions one after another, until a choice differs from what
    /// was drafted there, and forgets what was fed in vain.
    pub(super) fn choose(&mut self, logits: &[f32]) -> Result<()> {
        let known = self.tokens.len();
        let (drafts, masks) = (take(&mut self.drafts), take(&mut self.masks));
        let width = logits.len() / (drafts.len() + 1);
        for (position, logits) in logits.chunks_exact(width).enumerate() {
            let token = self.sampler.sample(logits, masks.get(position))?;
            if let Some(grammar) = &mut self.grammar {
                grammar.accept(token)?;
            }
            let mut group = vec![token];
            if !self.is_end(token) {
                group.extend(self.forced()?);
            }
            let draft = drafts.get(position);
            if let Some(draft) = draft {
                self.acceptance.learn(draft[0] == token);
            }
            let confirmed = draft == Some(&group);
            self.end = self.take(group).map(Ok);
            if self.end.is_some() || !confirmed {
                break;
            }
        }
        let right = common(&self.tokens[known..], &drafts.concat());
        self.cache.truncate(known + right);
        Ok(())
    }

    /// The tokens that the grammar forces to come next; it has taken them.
    fn forced(&mut self) -> Result<Vec<u32>> {
        let Some(grammar) = self.grammar.as_mut().filter(|g| !g.is_finished()) else {
            return Ok(Vec::new());
        };
        let mut forced = grammar.forced_tokens()?;
        let taken = grammar.try_accept(&forced)?;
        forced.truncate(taken);
        Ok(forced)
    }

    /// Adds tokens to the reply as far as there is room; says whether and how that ends it.
    fn take(&mut self, mut group: Vec<u32>) -> Option<Finish> {
        let left = self.room - (self.tokens.len() - self.prompt_tokens);
        let cut = group.len() > left;
        group.truncate(left);
        for &token in &group {
            self.text.push(self.tokenizer.visible_bytes(token));
        }
        self.tokens.extend(&group);
        let finished = self.grammar.as_ref().is_some_and(Constraint::is_finished);
        if group.last().is_some_and(|&token| self.is_end(token)) {
            Some(Finish::End)
        } else if !group.is_empty() && self.wants_to_stop() {
            Some(Finish::Stopped)
        } else if finished && !cut {
            Some(Finish::End)
        } else {
            (group.len() == left).then_some(Finish::Length)
        }
    }

    fn wants_to_stop(&self) -> bool {
        self.stop
            .as_ref()
            .is_some_and(|stop| stop(self.text.text()))
    }

    fn is_end(&self, token: u32) -> bool {
        self.tokenizer.end_tokens().contains(&token)
    }

    /// The reply of a row that has ended with `finish`.
    pub(super) fn reply(self, finish: Finish) -> Reply {
        Reply {
            text: self.text.finish(),
            finish,
            prompt_tokens: self.prompt_tokens,
            new_tokens: self.tokens.len() - self.prompt_tokens,
        }
    }
}

/// Masks of one row for one step, none where it has no grammar or does not choose.
pub(super) struct MaskTask<'r> {
    grammar: Option<&'r mut Constraint>,
    drafts: &'r [Vec<u32>],
    masks: &'r mut Vec<Mask>,
    end: &'r mut Option<Result<Finish>>,
}

impl MaskTask<'_> {
    /// Computes the masks from the last position back to the first, where the grammar then stands.
    pub(super) fn run(self) {
        let Some(grammar) = self.grammar else { return };
        let mut masks = || -> Result<()> {
            for group in self.drafts.iter().rev() {
                self.masks.push(grammar.mask()?);
                grammar.take_back(group.len())?;
            }
            self.masks.push(grammar.mask()?);
            self.masks.reverse();
            Ok(())
        };
        if let Err(error) = masks() {
            *self.end = Some(Err(error));
        }
    }
}

/// Tokens that both begin with.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
