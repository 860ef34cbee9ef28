//! Reasons of events about LeaderWorkerSets.

/// A ModelServing was made of the LeaderWorkerSet.
pub const CREATED: &str = "ModelServingCreated";
/// The ModelServing does not follow all fields of the LeaderWorkerSet: the message names each, with what happens instead.
pub const IGNORED: &str = "FieldsIgnored";
/// A ModelServing of this name is there, and is not the LeaderWorkerSet's.
pub const TAKEN: &str = "NameTaken";
/// The LeaderWorkerSet cannot be read: the message names the field.
pub const UNREADABLE: &str = "LeaderWorkerSetUnreadable";
/// The API server refuses the ModelServing that the LeaderWorkerSet asks for.
pub const REFUSED: &str = "ModelServingRefused";
