//! What happens to rank groups, in one word. The first four are the seed's. `docs/ranktables.md` explains each; a test compares.

/// The record was created.
pub const CONFIG_MAP_CREATED: &str = "RanktableConfigMapCreated";
/// A table was made and recorded.
pub const GENERATED: &str = "RanktableGenerated";
/// There is no table, and somebody must do something.
pub const GENERATION_FAILED: &str = "RanktableGenerationFailed";
/// It is not known what some pods hold.
pub const ANNOTATION_MISSING: &str = "PodRanktableAnnotationMissing";
/// Every pod has the table.
pub const DELIVERED: &str = "RanktableDelivered";
/// Some pod should have had the table by now.
pub const LATE: &str = "RanktableLate";
/// The table is larger than a ConfigMap.
pub const TOO_LARGE: &str = "RanktableTooLarge";
/// The table's reader may refuse it.
pub const INVALID: &str = "RanktableInvalid";

/// All of them.
pub const ALL: [&str; 8] = [
    CONFIG_MAP_CREATED,
    GENERATED,
    GENERATION_FAILED,
    ANNOTATION_MISSING,
    DELIVERED,
    LATE,
    TOO_LARGE,
    INVALID,
];
