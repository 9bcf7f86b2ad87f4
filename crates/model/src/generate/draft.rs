//! Drafts: guesses at the next tokens, taken from what stands in the prompt or the reply already.
//!
//! Replies copy: names, times and whole phrases from the transcript, and the shape of one record from the record
//! before. So what followed the last few tokens at their latest earlier occurrence often follows again. A row feeds
//! such guesses behind its known tokens and keeps those that its own choice confirms, which leaves the reply as it
//! would be without them. (Prompt-lookup decoding, Saxena 2023; the check is that of Leviathan et al. 2023.)

/// Most tokens that must agree; longer agreement is no better a sign.
const LONGEST_MATCH: usize = 6;
/// Fewest tokens that must agree.
const SHORTEST_MATCH: usize = 2;
/// Longest draft.
const MOST_TOKENS: usize = 12;
/// What one more row adds to a pass, as a share of a pass with a single token: the weights are read once however many
/// tokens there are, keys and values for each row. A Q4_K_M 0.5B model on 2 cores with 1,500 tokens a row takes 11 ms for
/// one row and 40 ms for twelve, in 8-bit integers.
const ROW_COST: f64 = 0.25;
/// The same for a drafted token, which shares its row's keys and values. Of 0.08 to 0.2 the fastest extraction.
const DRAFT_COST: f64 = 0.16;
/// Weight of the latest guess in the running acceptance.
const LEARNING: f64 = 0.1;
/// How far a row that has given up on drafts comes back at each token.
const RECOVERY: f64 = 0.01;

/// How well guesses went for one row.
pub(super) struct Acceptance(f64);

impl Acceptance {
    /// Expects what extraction shows on the average.
    pub(super) fn new() -> Self {
        Self(0.6)
    }

    /// Notes whether a guess was confirmed.
    pub(super) fn learn(&mut self, confirmed: bool) {
        self.0 += LEARNING * (f64::from(u8::from(confirmed)) - self.0);
    }

    /// Notes a token without a guess: texts change, so a row tries again after a while.
    pub(super) fn recover(&mut self) {
        self.0 += RECOVERY * (0.6 - self.0).max(0.0);
    }

    /// Tokens worth drafting while `rows` rows choose. The `k`th guess is confirmed with chance `p^k` and costs
    /// [`DRAFT_COST`]; without drafts a pass gives `rows` tokens for `1 + ROW_COST (rows - 1)`. A guess is worth it while it
    /// gives no less for its cost than that: with one row nearly always, with many only if it is more likely than not.
    pub(super) fn draft_len(&self, rows: usize) -> usize {
        let rows = rows.max(1) as f64;
        let least = DRAFT_COST * rows / (1.0 + ROW_COST * (rows - 1.0));
        let mut chance = self.0;
        let mut count = 0;
        while count < MOST_TOKENS && chance >= least {
            count += 1;
            chance *= self.0;
        }
        count
    }
}

/// The token that followed the longest earlier occurrence of what `tokens` ends with; of equally long ones the latest.
pub(super) fn guess(tokens: &[u32]) -> Option<u32> {
    let (&last, before) = tokens.split_last()?;
    let mut best = (SHORTEST_MATCH - 1, None);
    // `tokens[end]` follows the occurrence that ends before it.
    for end in (1..tokens.len()).rev() {
        if tokens[end - 1] != last {
            continue;
        }
        let earlier = tokens[..end - 1].iter().rev();
        let agreeing = before.iter().rev().zip(earlier).take(LONGEST_MATCH - 1);
        let length = 1 + agreeing.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, Some(tokens[end]));
        }
        if length == LONGEST_MATCH {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_then_the_latest_occurrence_is_continued() {
        assert_eq!(guess(&[1, 2, 3, 4, 1, 2, 3]), Some(4));
        assert_eq!(
            guess(&[9, 2, 3, 5, 1, 2, 3, 4, 8, 2, 3, 6, 1, 2, 3]),
            Some(4)
        );
        assert_eq!(guess(&[1, 2, 5, 1, 2, 6, 1, 2]), Some(6));
        assert_eq!(guess(&[1, 1, 1]), Some(1));
        assert_eq!(guess(&[7, 3, 5, 8, 3]), None, "one token is no sign");
        assert_eq!(guess(&[1, 2, 3]), None);
        assert_eq!(guess(&[1]), None);
        assert_eq!(guess(&[]), None);
    }

    #[test]
    fn drafts_are_for_few_rows_and_rows_that_copy() {
        let length = |acceptance, rows| Acceptance(acceptance).draft_len(rows);
        assert_eq!(length(0.9, 1), MOST_TOKENS);
        assert!((1..=4).contains(&length(0.6, 1)));
        assert_eq!(length(0.1, 1), 0);
        assert!(length(0.9, 8) < length(0.9, 1));
        assert_eq!(length(0.5, 32), 0);
    }

    #[test]
    fn a_row_gives_up_and_tries_again() {
        let mut acceptance = Acceptance::new();
        let mut refused = 0;
        while acceptance.draft_len(1) > 0 {
            acceptance.learn(false);
            refused += 1;
        }
        assert!(refused < 20);
        (0..60).for_each(|_| acceptance.recover());
        assert!(acceptance.draft_len(1) > 0);
        (0..30).for_each(|_| acceptance.learn(true));
        assert_eq!(acceptance.draft_len(1), MOST_TOKENS);
    }
}
