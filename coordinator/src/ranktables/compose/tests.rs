use muster_proto::delivery::Digest;

use super::super::record::LARGEST;
use super::*;

fn composed(text: String, numbering: Option<usize>) -> Composed {
    let numbering = numbering.map(|size| vec![0; size].into());
    Composed { text: text.into(), servers: 1, ranks: 1, numbering }
}

/// What does not pack well: a hash of each number.
fn noise(bytes: usize) -> String {
    (0..bytes.div_ceil(64)).map(|number| Digest::of(&number.to_le_bytes()).to_string()).collect()
}

#[test]
fn a_record_holds_the_text_then_the_packed_text_then_the_digest_alone() {
    let small = composed("table".repeat(1000), None);
    assert_eq!(small.content(), Content::Text("table".repeat(1000)));
    let large = composed("table".repeat(400_000), None);
    assert!(matches!(large.content(), Content::Packed(packed) if packed.len() < 10_000));
    let huge = composed(noise(4 * LARGEST), None);
    assert_eq!(huge.content(), Content::None);
}

#[test]
fn a_numbering_takes_its_room_first() {
    let text = "t".repeat(LARGEST);
    assert!(matches!(composed(text.clone(), None).content(), Content::Text(_)));
    assert!(matches!(composed(text.clone(), Some(1)).content(), Content::Packed(_)));
    assert_eq!(composed(text, Some(LARGEST)).content(), Content::None);
}
