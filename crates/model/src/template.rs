//! The model's own chat template, rendered as transformers renders it.

use std::{collections::HashMap, fs, path::Path};

use candle_core::quantized::gguf_file::Value as GgufValue;
use mem_schema::generator::ChatMessage;
use minijinja::{
    Environment, ErrorKind, Value, context,
    syntax::SyntaxConfig,
    value::{Kwargs, Serde},
};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::{
    Serializer,
    ser::{Formatter, PrettyFormatter},
};

use crate::error::{Error, Result};

/// Steps that one rendering may take: thousands of messages need far fewer, and a template that loops without
/// end is stopped within seconds.
const FUEL: u64 = 10_000_000;

/// Blanks that `tojson` may indent by.
const DEEPEST_INDENT: usize = 64;

const NAME: &str = "chat_template";

/// A parsed chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
}

impl ChatTemplate {
    /// Parses a template. `special_tokens` are the names it may use, such as `eos_token`, with
    /// their text.
    ///
    /// # Errors
    /// [`Error::Template`] with the line when it does not parse.
    pub fn new(source: &str, special_tokens: &[(String, String)]) -> Result<Self> {
        let invalid = |source| Error::Template {
            messages: 0,
            source,
        };
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(invalid)?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        for (name, text) in special_tokens {
            environment.add_global(name.clone(), text.clone());
        }
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(invalid)?;
        Ok(Self {
            environment,
            source: source.to_owned(),
        })
    }

    /// Reads `chat_template.jinja` of a model folder, else `chat_template` in its
    /// `tokenizer_config.json`: a template, or a list of named ones with one called `default`.
    ///
    /// # Errors
    /// When there is none, or a file cannot be read or parsed.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let config = TokenizerConfig::read(&folder.join("tokenizer_config.json"))?;
        let special_tokens = config.special_tokens();
        let path = folder.join("chat_template.jinja");
        if path.exists() {
            let source =
                fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
            return Self::new(&source, &special_tokens);
        }
        let source = config.template().ok_or_else(|| Error::NoTemplate {
            origin: folder.display().to_string(),
        })?;
        Self::new(source, &special_tokens)
    }

    /// Reads `tokenizer.chat_template` of a GGUF.
    ///
    /// # Errors
    /// When there is none or it does not parse.
    pub fn from_gguf(metadata: &HashMap<String, GgufValue>) -> Result<Self> {
        let Some(GgufValue::String(source)) = metadata.get("tokenizer.chat_template") else {
            return Err(Error::NoTemplate {
                origin: "GGUF metadata".to_owned(),
            });
        };
        let mut special_tokens = Vec::new();
        for name in ["bos", "eos"] {
            let id = metadata.get(&format!("tokenizer.ggml.{name}_token_id"));
            let id = id.and_then(|id| id.to_u32().ok());
            if let (Some(id), Some(GgufValue::Array(tokens))) =
                (id, metadata.get("tokenizer.ggml.tokens"))
                && let Some(GgufValue::String(text)) = tokens.get(id as usize)
            {
                special_tokens.push((format!("{name}_token"), text.clone()));
            }
        }
        Self::new(source, &special_tokens)
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The conversation as one text. With `add_generation_prompt` it ends where the assistant's
    /// next message begins. Thinking is switched off for templates that know it.
    ///
    /// # Errors
    /// [`Error::Template`] when the template refuses the messages.
    pub fn render(&self, messages: &[ChatMessage], add_generation_prompt: bool) -> Result<String> {
        let variables = context! { messages => Serde(messages), add_generation_prompt, enable_thinking => false };
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(variables))
            .map_err(|source| Error::Template {
                messages: messages.len(),
                source,
            })
    }
}

/// The part of `tokenizer_config.json` that concerns templates.
#[derive(Default, serde::Deserialize)]
struct TokenizerConfig {
    chat_template: Option<Templates>,
    bos_token: Option<SpecialToken>,
    eos_token: Option<SpecialToken>,
    pad_token: Option<SpecialToken>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(serde::Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum SpecialToken {
    Text(String),
    Object { content: String },
}

impl TokenizerConfig {
    /// Empty when the file does not exist.
    fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let json = fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        serde_json::from_slice(&json).map_err(|source| Error::Json {
            path: path.to_owned(),
            source,
        })
    }

    fn template(&self) -> Option<&str> {
        match self.chat_template.as_ref()? {
            Templates::One(template) => Some(template),
            Templates::Named(list) => {
                let default = list.iter().find(|entry| entry.name == "default")?;
                Some(&default.template)
            }
        }
    }

    fn special_tokens(&self) -> Vec<(String, String)> {
        [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
            ("pad_token", &self.pad_token),
        ]
        .into_iter()
        .filter_map(|(name, token)| match token.as_ref()? {
            SpecialToken::Text(text) | SpecialToken::Object { content: text } => {
                Some((name.to_owned(), text.clone()))
            }
        })
        .collect()
    }
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// The present time in UTC, so that a prompt does not depend on where the machine stands.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &now).map_err(|error| {
        minijinja::Error::new(ErrorKind::InvalidOperation, "invalid time format").with_source(error)
    })
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=indent)`; minijinja's own filter escapes
/// for HTML and writes no spaces.
fn to_json(value: &Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        let message = "`tojson` writes characters as they are, not `ensure_ascii`";
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, message));
    }
    options.assert_all_used()?;
    match indent {
        // A template of a damaged file must not ask for memory without bound.
        Some(width) if width > DEEPEST_INDENT => {
            let message = format!("`tojson` indents by at most {DEEPEST_INDENT}, not {width}");
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        }
        Some(width) => {
            let blanks = vec![b' '; width];
            write_json(value, PrettyFormatter::with_indent(&blanks))
        }
        None => write_json(value, Spaced),
    }
}

fn write_json(value: &Value, formatter: impl Formatter) -> Result<String, minijinja::Error> {
    let mut bytes = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        .map_err(|error| {
            minijinja::Error::new(ErrorKind::BadSerialization, "cannot write JSON")
                .with_source(error)
        })?;
    String::from_utf8(bytes).map_err(|error| {
        minijinja::Error::new(ErrorKind::BadSerialization, "JSON is no UTF-8").with_source(error)
    })
}

/// Python's separators: `, ` and `: `.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn template(source: &str) -> ChatTemplate {
        ChatTemplate::new(source, &[]).unwrap()
    }

    #[test]
    fn a_template_without_end_is_stopped() {
        let endless = template(
            "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}",
        );
        assert!(matches!(
            endless.render(&[], true),
            Err(Error::Template { .. })
        ));
    }

    #[test]
    fn renders_what_transformers_renders() {
        for name in ["tiny-qwen2", "tiny-qwen3"] {
            let template = ChatTemplate::from_folder(&fixtures::folder(name)).unwrap();
            let expected = fixtures::json(&format!("{name}/expected.json"));
            // Qwen2's template knows nothing of thinking; ours is always off for Qwen3's.
            let comparable = |chat: &&serde_json::Value| {
                name == "tiny-qwen2" || chat["enable_thinking"] == serde_json::json!(false)
            };
            let chats: Vec<_> = expected["chats"]
                .as_array()
                .unwrap()
                .iter()
                .filter(comparable)
                .collect();
            assert!(chats.len() > 4);
            for chat in chats {
                let messages: Vec<ChatMessage> =
                    serde_json::from_value(chat["messages"].clone()).unwrap();
                let prompt = chat["add_generation_prompt"].as_bool().unwrap();
                let text = template.render(&messages, prompt).unwrap();
                assert_eq!(
                    text,
                    chat["text"].as_str().unwrap(),
                    "{name}: {}",
                    chat["name"]
                );
            }
        }
    }

    #[test]
    fn python_habits_work() {
        let source = "{%- set o = {'b': '<é&>', 'a': [1, true, none]} -%}\n{{ o | tojson }}|{{ o | tojson(indent=2) }}";
        let text = template(source).render(&[], false).unwrap();
        let compact = r#"{"b": "<é&>", "a": [1, true, null]}"#;
        let indented = "{\n  \"b\": \"<é&>\",\n  \"a\": [\n    1,\n    true,\n    null\n  ]\n}";
        assert_eq!(text, format!("{compact}|{indented}"));
        let source = "{% for x in 'a,b,c'.split(',') %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}{% endfor %}";
        assert_eq!(template(source).render(&[], false).unwrap(), "ac");
        let year = template("{{ strftime_now('%Y') }}")
            .render(&[], false)
            .unwrap();
        assert!(year.len() == 4 && year.starts_with('2'), "{year}");
    }

    #[test]
    fn a_template_can_refuse() {
        let error = template("{{ raise_exception('no system role') }}")
            .render(&[], false)
            .unwrap_err();
        let source = std::error::Error::source(&error).unwrap();
        assert!(source.to_string().contains("no system role"), "{source}");
        assert!(ChatTemplate::new("{% if %}", &[]).is_err());
        let wide = template("{{ [1] | tojson(indent=1000000000000) }}");
        assert!(wide.render(&[], false).is_err());
        assert!(
            template("{{ strftime_now('%!') }}")
                .render(&[], false)
                .is_err()
        );
    }

    #[test]
    fn a_folder_may_hold_the_template_in_three_ways() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let read = || ChatTemplate::from_folder(folder.path());
        assert!(matches!(read(), Err(Error::NoTemplate { .. })));
        write(
            "tokenizer_config.json",
            r#"{"chat_template": "one", "eos_token": {"content": "E"}}"#,
        );
        assert_eq!(read().unwrap().render(&[], false).unwrap(), "one");
        let named = r#"{"eos_token": "E", "chat_template":
            [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "{{ eos_token }}"}]}"#;
        write("tokenizer_config.json", named);
        assert_eq!(read().unwrap().render(&[], false).unwrap(), "E");
        write("chat_template.jinja", "file {{ eos_token }}");
        assert_eq!(read().unwrap().render(&[], false).unwrap(), "file E");
        assert_eq!(read().unwrap().source(), "file {{ eos_token }}");
        write("tokenizer_config.json", "[");
        assert!(matches!(read(), Err(Error::Json { .. })));
    }
}
