//! Turning whatever a model put into a field into clean text (DimMem specification, section 1.3).

use serde_json::Value;

/// Which defects of the reference implementation are reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// None: lists are joined, objects in a text field are dropped.
    #[default]
    Default,
    /// All, for comparison runs: values other than text are written in Python's notation.
    Compat,
}

/// Text of `value` without outer white space; `""` for null, false, 0 and everything empty.
pub fn clean(value: &Value, mode: Mode) -> String {
    if is_blank(value) {
        return String::new();
    }
    match (value, mode) {
        (Value::String(text), _) => trim(text).to_owned(),
        (Value::Number(number), _) => number.to_string(),
        (Value::Bool(_), Mode::Default) => "true".to_owned(),
        (Value::Array(items), Mode::Default) => {
            let parts = items.iter().filter(|item| is_scalar(item));
            let parts = parts.map(|item| clean(item, mode));
            parts
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(", ")
        }
        (Value::Object(_), Mode::Default) | (Value::Null, _) => String::new(),
        (_, Mode::Compat) => python_repr(value),
    }
}

/// Keywords of `value`: a list, or one bare text; cleaned, without empty ones and exact duplicates, order kept.
pub fn clean_keywords(value: &Value, mode: Mode) -> Vec<String> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::String(_) => std::slice::from_ref(value),
        _ => &[],
    };
    let mut keywords: Vec<String> = Vec::new();
    for item in items {
        if mode == Mode::Default && !is_scalar(item) {
            continue;
        }
        let keyword = clean(item, mode);
        if !keyword.is_empty() && !keywords.contains(&keyword) {
            keywords.push(keyword);
        }
    }
    keywords
}

/// `text` without outer white space as Python's `strip` sees it: U+001C to U+001F count too.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// What Python calls false.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

/// `value` in Python's notation, as the reference writes it.
fn python_repr(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => python_quote(text),
        Value::Array(items) => format!("[{}]", list(items.iter().map(python_repr).collect())),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                format!("{}: {}", python_quote(key), python_repr(value))
            };
            format!("{{{}}}", list(fields.iter().map(field).collect()))
        }
    }
}

fn python_quote(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if c == quote => quoted.extend(['\\', c]),
            _ => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_python_calls_false_become_empty() {
        for value in [
            json!(null),
            json!(false),
            json!(0),
            json!(0.0),
            json!(""),
            json!([]),
            json!({}),
        ] {
            assert_eq!(clean(&value, Mode::Default), "", "{value}");
            assert_eq!(clean(&value, Mode::Compat), "", "{value}");
        }
    }

    #[test]
    fn modes_differ_in_what_is_not_text() {
        let cases = [
            (json!(true), "true", "True"),
            (
                json!(["a", 2, ["b"], null, " c "]),
                "a, 2, c",
                "['a', 2, ['b'], None, ' c ']",
            ),
            (json!({"a": "it's"}), "", "{'a': \"it's\"}"),
            (json!(42), "42", "42"),
            (json!("\u{1f}\u{3000} x\u{a0}"), "x", "x"),
        ];
        for (value, default, compat) in cases {
            assert_eq!(clean(&value, Mode::Default), default);
            assert_eq!(clean(&value, Mode::Compat), compat);
        }
    }

    #[test]
    fn keywords_keep_order_and_case() {
        let value = json!(["Ghent", "ghent", " Ghent ", "", null, 0, 7, ["a"]]);
        assert_eq!(
            clean_keywords(&value, Mode::Default),
            ["Ghent", "ghent", "7"]
        );
        assert_eq!(
            clean_keywords(&value, Mode::Compat),
            ["Ghent", "ghent", "7", "['a']"]
        );
        assert_eq!(
            clean_keywords(&json!("one two"), Mode::Default),
            ["one two"]
        );
        assert!(clean_keywords(&json!({"a": 1}), Mode::Default).is_empty());
    }
}
