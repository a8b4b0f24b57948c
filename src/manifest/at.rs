use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A value and where in its file it stands, in bytes.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for At<T> {}

impl<T: Ord> PartialOrd for At<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for At<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.value.cmp(&other.value)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        let span = spanned.span();
        Ok(At { value: spanned.into_inner(), span })
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }
}

/// One value, or a list of them: an axis.
#[derive(Clone, Debug)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<At<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

/// Hands a scalar on to the type of the elements, whose own messages then say what it expects.
fn one<'de, T, E, V>(value: V) -> Result<OneOrMany<T>, E>
where
    T: Deserialize<'de>,
    E: de::Error,
    V: IntoDeserializer<'de, E>,
{
    T::deserialize(value.into_deserializer()).map(OneOrMany::One)
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        one(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        one(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        one(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        one(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        one(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(OneOrMany::Many)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        schemars::json_schema!({
            "anyOf": [value.clone(), { "type": "array", "items": value, "minItems": 1 }]
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A count, or a time as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountOrTime {
    Count(u64),
    Time(String),
}

impl<'de> Deserialize<'de> for CountOrTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrTimeVisitor;

        impl Visitor<'_> for CountOrTimeVisitor {
            type Value = CountOrTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative, or a time such as `\"500ms\"`")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<CountOrTime, E> {
                Ok(CountOrTime::Count(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<CountOrTime, E> {
                u64::try_from(value)
                    .map(CountOrTime::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<CountOrTime, E> {
                Ok(CountOrTime::Time(value.to_owned()))
            }
        }

        deserializer.deserialize_any(CountOrTimeVisitor)
    }
}

impl JsonSchema for CountOrTime {
    fn schema_name() -> Cow<'static, str> {
        "CountOrTime".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }]
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// `"auto"` or a list of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CoreList {
    Auto,
    These(Vec<At<u32>>),
}

impl<'de> Deserialize<'de> for CoreList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CoreListVisitor;

        impl<'de> Visitor<'de> for CoreListVisitor {
            type Value = CoreList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a list of core numbers")
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<CoreList, E> {
                match value {
                    "auto" => Ok(CoreList::Auto),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<CoreList, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(CoreList::These)
            }
        }

        deserializer.deserialize_any(CoreListVisitor)
    }
}

impl JsonSchema for CoreList {
    fn schema_name() -> Cow<'static, str> {
        "CoreList".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "anyOf": [
                { "const": "auto" },
                { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1, "uniqueItems": true }
            ]
        })
    }

    fn inline_schema() -> bool {
        true
    }
}
