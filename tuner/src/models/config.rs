//! Reading the fields of a `config.json`. A field is absent, or has the type asked for, or is an error with its name.

use serde_json::{Map, Value};
use tgemm_db::DType;
use tgemm_db::problem::EXTENT_MAX;

use super::{CONFIG_BYTES_MAX, ModelError};

/// Characters of a wrong value that a message repeats.
const VALUE_CHARS_MAX: usize = 40;

/// The file as a JSON object.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, ModelError> {
    if text.len() > CONFIG_BYTES_MAX {
        return Err(ModelError::TooLarge { bytes: text.len() });
    }
    // Windows editors put a byte order mark before the first brace; Python's loader of these files takes it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default().to_owned();
        ModelError::NotJson { line: error.line(), column: error.column(), reason }
    })?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ModelError::NotAnObject),
    }
}

/// The text model's fields, and the file around them.
pub(super) struct Config<'a> {
    root: &'a Map<String, Value>,
    text: &'a Map<String, Value>,
    prefix: &'static str,
}

impl<'a> Config<'a> {
    /// Looks into `text_config` where there is one: a multimodal model's decoder is described there.
    pub(super) fn new(root: &'a Map<String, Value>) -> Result<Config<'a>, ModelError> {
        match root.get("text_config") {
            None | Some(Value::Null) => Ok(Config { root, text: root, prefix: "" }),
            Some(Value::Object(text)) => Ok(Config { root, text, prefix: "text_config." }),
            Some(other) => Err(wrong("text_config".into(), other, "an object")),
        }
    }

    /// The decoder's model type.
    pub(super) fn model_type(&self) -> Result<&'a str, ModelError> {
        // Some multimodal files name the type outside only.
        let (value, field) = match self.get("model_type") {
            Some(value) => (Some(value), self.name("model_type")),
            None => (present(self.root, "model_type"), "model_type".to_owned()),
        };
        match value {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(wrong(field, other, "a string")),
            None => Err(ModelError::Missing { field, remedy: "" }),
        }
    }

    /// A size that must be there.
    pub(super) fn size(&self, field: &str) -> Result<u32, ModelError> {
        self.size_or_none(field)?.ok_or_else(|| self.missing(field, ""))
    }

    /// A size that must be there: the model type's class has a default that the file does not show.
    pub(super) fn size_no_default(&self, field: &str) -> Result<u32, ModelError> {
        let remedy = "; the model type's class has a default for it, write that into the file";
        self.size_or_none(field)?.ok_or_else(|| self.missing(field, remedy))
    }

    /// A size of at least 1, if it is there.
    pub(super) fn size_or_none(&self, field: &str) -> Result<Option<u32>, ModelError> {
        match self.whole_or_none(field)? {
            Some(0) => Err(wrong(self.name(field), &Value::from(0), SIZE)),
            other => Ok(other),
        }
    }

    /// A whole number, 0 included, if it is there.
    pub(super) fn whole_or_none(&self, field: &str) -> Result<Option<u32>, ModelError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|&number| number <= EXTENT_MAX) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(self.name(field), value, SIZE)),
        }
    }

    /// A switch; false if it is not there.
    pub(super) fn switch(&self, field: &str) -> Result<bool, ModelError> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(wrong(self.name(field), other, "true or false")),
        }
    }

    /// A list of layer numbers; empty if it is not there.
    pub(super) fn layer_list(&self, field: &str) -> Result<Vec<u64>, ModelError> {
        let expected = "a list of layer numbers";
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| wrong(self.name(field), value, expected))?;
        let number = |entry: &Value| entry.as_u64().ok_or_else(|| wrong(self.name(field), entry, expected));
        list.iter().map(number).collect()
    }

    /// Does the file describe something beside the text model under this name?
    pub(super) fn beside_text(&self, field: &str) -> bool {
        !self.prefix.is_empty() && present(self.root, field).is_some()
    }

    /// The element type of the linear layers: `asked`, or the file's `torch_dtype` or `dtype`.
    ///
    /// Quantised weights are refused unless `asked` says what to take them for, or `experts_only`: then the layers that
    /// are sites here keep the file's type.
    pub(super) fn dtype(
        &self,
        asked: Option<DType>,
        experts_only: bool,
        notes: &mut Vec<String>,
    ) -> Result<DType, ModelError> {
        let quantization = self.get("quantization_config").or_else(|| present(self.root, "quantization_config"));
        let method = quantization.map(|value| match value.get("quant_method") {
            Some(Value::String(method)) => shorten(method),
            _ => "quantization_config without quant_method".into(),
        });
        match (method, asked) {
            (Some(_), _) if experts_only => {}
            (Some(method), None) => return Err(ModelError::Quantized { method }),
            (Some(method), Some(dtype)) => {
                notes.push(format!("quantisation ({method}) is ignored: shapes are those of the model in {dtype}"));
            }
            (None, _) => {}
        }
        let dtype = match asked {
            Some(dtype) => dtype,
            None => self.file_dtype()?,
        };
        if dtype == DType::F32 && asked.is_none() {
            notes.push("the file says float32; vLLM runs such a model in 16 bits unless told otherwise".into());
        }
        Ok(dtype)
    }

    fn file_dtype(&self) -> Result<DType, ModelError> {
        let places = [(self.text, self.prefix), (self.root, "")];
        let found = places.into_iter().find_map(|(object, prefix)| {
            ["torch_dtype", "dtype"].into_iter().find_map(|field| {
                let value = present(object, field).filter(|value| value.as_str() != Some("auto"))?;
                Some((format!("{prefix}{field}"), value))
            })
        });
        let Some((field, value)) = found else {
            let remedy = "; give the element type yourself";
            return Err(ModelError::Missing { field: "torch_dtype".into(), remedy });
        };
        match value.as_str().map(|text| text.strip_prefix("torch.").unwrap_or(text)) {
            Some("bfloat16") => Ok(DType::Bf16),
            Some("float16" | "half") => Ok(DType::F16),
            Some("float32" | "float") => Ok(DType::F32),
            _ => Err(wrong(field, value, "bfloat16, float16 or float32")),
        }
    }

    /// The error of a field that is not there.
    pub(super) fn missing(&self, field: &str, remedy: &'static str) -> ModelError {
        ModelError::Missing { field: self.name(field), remedy }
    }

    /// The error of a field whose value does not fit the rest.
    pub(super) fn wrong(&self, field: &str, value: u32, expected: &str) -> ModelError {
        wrong(self.name(field), &Value::from(value), expected)
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        present(self.text, field)
    }

    fn name(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }
}

const SIZE: &str = "a whole number between 1 and 2147483647";

/// Python writes an unset field as null.
fn present<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

fn wrong(field: String, value: &Value, expected: &str) -> ModelError {
    ModelError::Field { field, value: shorten(&value.to_string()), expected: expected.to_owned() }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
