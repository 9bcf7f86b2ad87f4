//! The closed sets of names that a language table may use: slots, units, parts, actions.
//!
//! This file is the reference for those who write tables; `crates/schema/time/README.md` shows how they are used.

/// Defines an enum with a fixed name for each variant.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(super) enum $type { $($(#[$vdoc])* $variant,)* }

        impl $type {
            /// All of them, in order.
            #[allow(dead_code, reason = "not every one of these enums needs it")]
            pub(super) const ALL: &[Self] = &[$(Self::$variant),*];

            /// The one with this name.
            #[allow(dead_code, reason = "not every one of these enums needs it")]
            pub(super) fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

names! {
    /// Units of time.
    Unit {
        Second = "second",
        Minute = "minute",
        Hour = "hour",
        Day = "day",
        /// Monday to Friday.
        Workday = "workday",
        /// Saturday and Sunday.
        Weekend = "weekend",
        /// Monday to Sunday.
        Week = "week",
        /// Monday to Friday as one unit.
        Workweek = "workweek",
        /// Two weeks.
        Fortnight = "fortnight",
        Month = "month",
        Quarter = "quarter",
        /// January to June or July to December.
        Half = "half",
        Year = "year",
        Decade = "decade",
        Century = "century",
    }
}

names! {
    /// Seasons of the northern half; the southern option turns them by half a year.
    Season {
        Spring = "spring",
        Summer = "summer",
        Autumn = "autumn",
        Winter = "winter",
    }
}

names! {
    /// Parts of the day.
    Part {
        /// The small hours and daybreak.
        Dawn = "dawn",
        Morning = "morning",
        Noon = "noon",
        Afternoon = "afternoon",
        Evening = "evening",
        Night = "night",
        Midnight = "midnight",
    }
}

names! {
    /// Parts of a week, month, year or decade.
    Portion {
        Early = "early",
        Middle = "middle",
        /// Late, or the end.
        Late = "late",
        /// Late, and not before today where the whole is running ("later this month").
        Later = "later",
        FirstHalf = "first_half",
        SecondHalf = "second_half",
    }
}

names! {
    /// Kinds of node: what a slot of a pattern can hold.
    Class {
        Number = "number",
        Ordinal = "ordinal",
        Weekday = "weekday",
        Weekdays = "weekdays",
        Month = "month",
        Unit = "unit",
        Season = "season",
        Part = "part",
        Portion = "portion",
        Relative = "relative",
        Day = "day",
        Holiday = "holiday",
        AmPm = "ampm",
        Era = "era",
        Length = "length",
        Time = "time",
        Date = "date",
        Recurrence = "recurrence",
        /// A word of a list of `[sets]`; the value is its place.
        Set = "set",
        /// What stands alone: vague words, durations, words that are no time. No slot takes it.
        Other = "other",
    }
}

names! {
    /// Slots of patterns, written `{name}`; `{unit=week}` takes one value only.
    Slot {
        /// Any whole number, in digits or words.
        N = "n",
        /// A year of four digits, or of number words from 1000 to 2999.
        Year = "year",
        /// Two digits of a year.
        Yy = "yy",
        /// A month in digits or number words, 1 to 12.
        M = "m",
        /// A day of the month in digits or number words, 1 to 31.
        D = "d",
        /// An hour, 0 to 24.
        Hour = "hour",
        /// A minute, 0 to 59: two digits or number words.
        Minute = "minute",
        /// An ordinal (`[ordinals]`, or made by the action `ordinal`); -1 is the last.
        Ordinal = "ordinal",
        Weekday = "weekday",
        /// Several weekdays by their `[weekday_letters]`.
        Weekdays = "weekdays",
        /// A month's name.
        Month = "month",
        Unit = "unit",
        Season = "season",
        /// A part of the day.
        Part = "part",
        /// Early, middle or late.
        Portion = "portion",
        /// Last, this, next: a number of steps.
        Relative = "relative",
        /// A word for a day counted from today.
        Day = "day",
        Holiday = "holiday",
        AmPm = "ampm",
        Era = "era",
        /// Made by `length`.
        Length = "length",
        /// Made by `time`.
        Time = "time",
        /// Made by `date` and all other actions that give a time.
        Date = "date",
        /// Made by `every`.
        Recurrence = "recurrence",
        /// A word of a list of `[sets]`, written `<name>`.
        Set = "set",
    }
}

impl Slot {
    /// The kind of node that fills the slot.
    pub(super) fn class(self) -> Class {
        match self {
            Self::N | Self::Year | Self::Yy | Self::M | Self::D | Self::Hour | Self::Minute => {
                Class::Number
            }
            Self::Ordinal => Class::Ordinal,
            Self::Weekday => Class::Weekday,
            Self::Weekdays => Class::Weekdays,
            Self::Month => Class::Month,
            Self::Unit => Class::Unit,
            Self::Season => Class::Season,
            Self::Part => Class::Part,
            Self::Portion => Class::Portion,
            Self::Relative => Class::Relative,
            Self::Day => Class::Day,
            Self::Holiday => Class::Holiday,
            Self::AmPm => Class::AmPm,
            Self::Era => Class::Era,
            Self::Length => Class::Length,
            Self::Time => Class::Time,
            Self::Date => Class::Date,
            Self::Recurrence => Class::Recurrence,
            Self::Set => Class::Set,
        }
    }
}

impl Action {
    /// The kind of node that it makes.
    pub(super) fn class(self) -> Class {
        match self {
            Self::Number => Class::Number,
            Self::Ordinal => Class::Ordinal,
            Self::Length | Self::HalfLength => Class::Length,
            Self::Time | Self::HalfPast | Self::HalfTo | Self::MinutesPast | Self::MinutesTo => {
                Class::Time
            }
            Self::Lasted | Self::Vague | Self::Unresolved | Self::Nothing => Class::Other,
            Self::Every | Self::EveryBetween | Self::EveryOther | Self::EveryNth => {
                Class::Recurrence
            }
            _ => Class::Date,
        }
    }
}

names! {
    /// What a rule does with the slots of its pattern.
    Action {
        /// Makes a `{n}` of one `{n}`, or of two number words that name a year together ("nineteen eighty-six").
        Number = "number",
        /// Makes an `{ordinal}` of `{n}`, as in `{n}th`.
        Ordinal = "ordinal",
        /// Makes a `{length}`: `{n} {unit}`, one `{unit}` alone, or `{length}` and `{length}` added up.
        Length = "length",
        /// Makes a `{length}`: half of the `{unit}`, or `{length}` and half of its own unit more.
        HalfLength = "half_length",
        /// Makes a `{time}` of `{hour}`, `{minute}`, `{ampm}`, `{part}`, `{time}`.
        Time = "time",
        /// A time half past `{hour}`, or half of the `{hour}` before in languages that say so (`half_to`).
        HalfPast = "half_past",
        /// A time half an hour before `{hour}`.
        HalfTo = "half_to",
        /// A time `{n}` minutes (15 when the pattern has none) after `{hour}`.
        MinutesPast = "minutes_past",
        /// A time `{n}` minutes (15 when the pattern has none) before `{hour}`.
        MinutesTo = "minutes_to",
        /// Puts all slots together to one date: year, month, day, weekday, holiday, time of day, `{relative}` with
        /// `{unit}`, `{weekday}`, `{month}`, `{season}` or `{holiday}`. A finer part is looked up inside a coarser one:
        /// `{weekday} of {date}` is that day of that week. Conflicting parts make no date.
        Date = "date",
        /// A date that no calendar has, whatever its numbers `{n}` are: for forms in which some numbers make a date and
        /// others none ("2024-13-05"). A date of the same words goes before it.
        NoDate = "no_date",
        /// `date`, read as the nearest to today whose direction is the past.
        Past = "past",
        /// `date`, read as the nearest to today whose direction is the future.
        Future = "future",
        /// `date` of a `{weekday}` with `{relative}`, counted in Monday-to-Sunday weeks for every step.
        WeekdayOfWeek = "weekday_of_week",
        /// `{length}` before now; before `{date}` when there is one.
        Back = "back",
        /// `{length}` after now; after `{date}` when there is one.
        Forward = "forward",
        /// Within `{length}` from now: the last day of it, then the week, month or year that holds that day.
        Within = "within",
        /// The range of the last `{length}` or `{n} {unit}`, up to yesterday.
        LastSpan = "last_span",
        /// The range of the next `{length}` or `{n} {unit}`, from tomorrow.
        NextSpan = "next_span",
        /// The range of `{length}` that begins with `{date}`.
        SpanFrom = "span_from",
        /// `span_from` where the date may also be all that is meant ("we fly on 8 July for three weeks").
        SpanAt = "span_at",
        /// From the first `{date}` to the last, both included.
        Range = "range",
        /// `range` of two days side by side ("the 11th and 12th"); nothing for others.
        Pair = "pair",
        /// From the first `{date}` up to the day before the last.
        RangeBefore = "range_before",
        /// The last `{weekday}` before `{date}` or `{holiday}`.
        WeekdayBefore = "weekday_before",
        /// The first `{weekday}` after `{date}` or `{holiday}`.
        WeekdayAfter = "weekday_after",
        /// From the beginning of `{date}` (this year, this week) to yesterday.
        SoFar = "so_far",
        /// From today to the end of `{date}`.
        RestOf = "rest_of",
        /// The Monday-to-Sunday week (or the weekend, with `{unit=weekend}`) of `{date}`.
        WeekOf = "week_of",
        /// The week numbered `{n}` (ISO) of `{date}`, of this year when there is none.
        WeekNumber = "week_number",
        /// The `{ordinal}` `{unit}`, `{weekday}` or `{length}` in `{date}`.
        Nth = "nth",
        /// The `{portion}` of `{date}`, of `{unit}` now, of `{month}`.
        Portion = "portion",
        /// A quarter of a year from `{n}` or `{ordinal}`, of `{date}` or `{year}`.
        QuarterOf = "quarter",
        /// A half of a year from `{n}` or `{ordinal}`, of `{date}` or `{year}`.
        HalfOf = "half",
        /// The decade of `{year}` or `{yy}` or `{n}` (1990s, the nineties).
        Decade = "decade",
        /// The century of `{n}` or `{ordinal}`.
        Century = "century",
        /// When that which has lasted `{length}` began.
        Began = "began",
        /// `began` for what may also be a mere length ("for ten years", "ten weeks old"): a day or more, and not sure.
        Lasted = "lasted",
        /// Now, to the minute.
        Now = "now",
        /// Seen, and too vague for a date ("recently"): the empty time.
        Vague = "vague",
        /// Seen, and no date can be told (a duration, an age): no candidate.
        Unresolved = "unresolved",
        /// Something that comes again: each `{unit}`, `{weekday}`, `{part}`, `{month}`, `{season}`, `{holiday}`, with
        /// `{n}` or `{ordinal}` for the step ("every 2 weeks", "every third day"); several weekdays are all meant.
        Every = "every",
        /// `every` for all weekdays from the first `{weekday}` to the last.
        EveryBetween = "every_between",
        /// `every` with a step of two.
        EveryOther = "every_other",
        /// `every` for the `{ordinal}` `{weekday}` or `{d}` of each month.
        EveryNth = "every_nth",
        /// A word that is no time although it looks like one; hides what it covers.
        Nothing = "nothing",
    }
}
