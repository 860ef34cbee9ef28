//! What is done when, over years, and that nobody meets a certificate that it cannot trust.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn start() -> Timestamp {
    at("2026-01-01T00:00:00Z")
}

fn names() -> Names {
    Names::of_service("muster-coordinator", "muster-system", ["127.0.0.1", "LOCALHOST."])
}

/// Whether a client that trusts these authorities believes the certificate.
fn believed(authorities: &str, bundle: &Bundle, name: &str, now: Timestamp) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().unwrap();
    let certificate = CertificateDer::from_pem_slice(bundle.certificate.as_bytes()).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = std::time::Duration::from_secs(now.as_second().try_into().unwrap());
    let now = UnixTime::since_unix_epoch(now);
    verifier.verify_server_cert(&certificate, &[], &name, &[], now).is_ok()
}

/// Does what is due until nothing is; the steps that it took.
fn settle(now: Timestamp, bundle: &mut Option<Bundle>, names: &Names) -> (Vec<Plan>, Timestamp) {
    let mut steps = Vec::new();
    loop {
        assert!(steps.len() < 6, "it never rests: {steps:?}");
        let next = plan(now, bundle.as_ref(), names);
        *bundle = Some(match &next {
            Plan::Keep { again_at } => return (steps, *again_at),
            Plan::Renew { step } => renew(*step, now, bundle.as_ref().unwrap(), names).unwrap(),
            Plan::Remake { .. } => remake(now, names).unwrap(),
        });
        steps.push(next);
    }
}

fn made(now: Timestamp) -> Bundle {
    remake(now, &names()).unwrap()
}

fn count(pem: &str) -> usize {
    pem.matches("BEGIN").count()
}

#[test]
fn a_new_bundle_is_good_for_its_names_and_for_no_others() {
    let bundle = made(start());
    let good = ["localhost", "127.0.0.1", "muster-coordinator.muster-system.svc"];
    for name in good {
        assert!(believed(&bundle.authorities, &bundle, name, start()), "{name}");
    }
    for name in ["example.org", "127.0.0.2", "muster-coordinator.other.svc"] {
        assert!(!believed(&bundle.authorities, &bundle, name, start()), "{name}");
    }
    let other = made(start());
    assert!(!believed(&other.authorities, &bundle, "localhost", start()), "another authority");
    // Clocks differ.
    assert!(believed(&bundle.authorities, &bundle, "localhost", after(start(), -SKEW)));
}

#[test]
fn what_is_due_at_which_time() {
    let day = |days: i64| after(start(), DAY * i32::try_from(days).unwrap());
    let bundle = made(start());
    let word = |plan: &Plan| match plan {
        Plan::Keep { .. } => "keep".to_owned(),
        Plan::Renew { step } => format!("{step:?}"),
        Plan::Remake { .. } => "remake".to_owned(),
    };
    let cases = [
        ("new", 0, "keep"),
        ("before two thirds", 59, "keep"),
        ("after two thirds", 60, "Certificate"),
        ("expired", 91, "Certificate"),
        ("the authority has ended", 3651, "remake"),
        ("not valid yet", -1, "remake"),
    ];
    for (what, days, expected) in cases {
        assert_eq!(word(&plan(day(days), Some(&bundle), &names())), expected, "{what}");
    }
    let Plan::Keep { again_at } = plan(start(), Some(&bundle), &names()) else { panic!() };
    assert!(again_at > day(59) && again_at <= day(60), "{again_at}");
}

#[test]
fn other_names_are_a_new_certificate_by_the_same_authority() {
    let bundle = made(start());
    let more = Names::new(["localhost", "new.example.org"]);
    assert_eq!(plan(start(), Some(&bundle), &more), Plan::Renew { step: RenewalStep::Certificate });
    let mut renewed = Some(bundle.clone());
    settle(start(), &mut renewed, &more);
    let renewed = renewed.unwrap();
    assert_eq!(renewed.authorities, bundle.authorities);
    assert!(believed(&bundle.authorities, &renewed, "new.example.org", start()));
}

#[test]
fn coordinators_share_a_secret_for_each_purpose_as_long_as_their_authority_signs() {
    let secret = |bundle: &Bundle, purpose: &str| {
        let (sender, certificates) = serving::certificates();
        assert_eq!(certificates.shared_secret(purpose), None, "there is no bundle yet");
        sender.serve(bundle).unwrap();
        certificates.shared_secret(purpose).unwrap()
    };
    let bundle = made(start());
    let one = secret(&bundle, "one");
    assert_eq!(secret(&bundle, "one"), one);
    assert_ne!(secret(&bundle, "other"), one);
    assert_ne!(secret(&made(start()), "one"), one, "another authority");
    let mut renewed = Some(bundle);
    settle(start(), &mut renewed, &Names::new(["localhost", "new.example.org"]));
    assert_eq!(secret(&renewed.unwrap(), "one"), one, "another certificate");
}

#[test]
fn a_name_that_is_none_is_an_error_that_says_so() {
    for name in ["", "a b", "ü.example", "a..b", &"x".repeat(64), "a/b"] {
        let error = remake(start(), &Names::new([name])).unwrap_err();
        assert_eq!(error.reason(), "name", "{error}");
    }
}

#[test]
fn what_cannot_be_read_is_made_anew_with_the_cause() {
    let (good, other) = (made(start()), made(start()));
    let empty = String::new;
    let junk = || "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let bad = [
        ("ca.crt", Bundle { authorities: empty(), ..good.clone() }),
        ("ca.crt", Bundle { authorities: junk(), ..good.clone() }),
        ("ca.crt", Bundle { authorities: good.certificate.clone(), ..good.clone() }),
        ("ca.crt", Bundle { authorities: good.authorities.repeat(9), ..good.clone() }),
        ("ca.crt", Bundle { authorities: "x".repeat(1 << 20), ..good.clone() }),
        ("ca.key", Bundle { authority_key: empty(), ..good.clone() }),
        ("ca.key", Bundle { authority_key: other.authority_key.clone(), ..good.clone() }),
        ("tls.crt", Bundle { certificate: empty(), ..good.clone() }),
        ("tls.crt", Bundle { certificate: junk(), ..good.clone() }),
        ("tls.key", Bundle { key: empty(), ..good.clone() }),
        ("tls.key", Bundle { key: other.key.clone(), ..good.clone() }),
    ];
    for (field, bundle) in bad {
        match plan(start(), Some(&bundle), &names()) {
            Plan::Remake { why } => assert!(why.starts_with(field), "{field}: {why}"),
            other => panic!("{field}: {other:?}"),
        }
        assert!(serving::certificates().0.serve(&bundle).is_err(), "{field}");
    }
    // All of it is fine, but the authority has not signed it.
    let foreign = Bundle { certificate: other.certificate, key: other.key, ..good };
    assert_eq!(
        plan(start(), Some(&foreign), &names()),
        Plan::Renew { step: RenewalStep::Certificate }
    );
}

#[test]
fn an_authority_is_announced_then_signs_and_the_old_one_is_forgotten_at_its_end() {
    let mut bundle = Some(made(start()));
    let first = bundle.clone().unwrap().authorities;
    let announce = after(start(), AUTHORITY_LASTS - AUTHORITY_EARLY + HOUR);
    settle(announce, &mut bundle, &names());
    let announced = bundle.clone().unwrap();
    assert_eq!((count(&announced.authorities), count(&announced.authority_key)), (2, 2));
    assert!(announced.authorities.starts_with(&first), "the one that signs comes first");
    assert!(believed(&first, &announced, "localhost", announce), "the old one still signs");

    let early = after(announce, ANNOUNCED - HOUR);
    assert!(matches!(plan(early, bundle.as_ref(), &names()), Plan::Keep { .. }));
    let adopt = after(announce, ANNOUNCED);
    let (steps, _) = settle(adopt, &mut bundle, &names());
    assert_eq!(steps, [Plan::Renew { step: RenewalStep::Adopt }]);
    let adopted = bundle.clone().unwrap();
    assert_eq!((count(&adopted.authorities), count(&adopted.authority_key)), (2, 1));
    assert!(adopted.authorities.ends_with(&first), "the old one is still trusted");
    assert!(!believed(&first, &adopted, "localhost", adopt), "but does not sign");
    assert!(believed(&announced.authorities, &adopted, "localhost", adopt));

    let (steps, _) = settle(after(start(), AUTHORITY_LASTS + HOUR), &mut bundle, &names());
    assert!(steps.contains(&Plan::Renew { step: RenewalStep::Forget }), "{steps:?}");
    assert_eq!(count(&bundle.unwrap().authorities), 1);
}

#[test]
fn an_announced_authority_signs_at_once_when_the_old_one_has_ended() {
    let mut bundle = Some(made(start()));
    settle(after(start(), AUTHORITY_LASTS - HOUR), &mut bundle, &names());
    let announced = bundle.clone().unwrap();
    let end = after(start(), AUTHORITY_LASTS + HOUR);
    let (steps, _) = settle(end, &mut bundle, &names());
    assert_eq!(steps[0], Plan::Renew { step: RenewalStep::Adopt });
    assert!(believed(&announced.authorities, &bundle.unwrap(), "localhost", end));
}

#[test]
fn keys_are_not_in_logs() {
    let bundle = made(start());
    let text = format!("{bundle:?}");
    assert!(!text.contains("PRIVATE"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A coordinator that looks when it said it would, late by up to some hours, over decades. A client that hears of
    /// authorities up to a day late believes every certificate.
    #[test]
    fn who_hears_within_a_day_always_believes(
        late in prop::collection::vec(0i64..48 * 60, 8),
        heard in 0i64..23 * 60,
    ) {
        let mut now = start();
        let mut bundle = None;
        settle(now, &mut bundle, &names());
        let end = after(start(), DAY * (365 * 31));
        let mut told = vec![(now, bundle.clone().unwrap().authorities)];
        for turn in 0.. {
            let (steps, again_at) = settle(now, &mut bundle, &names());
            let held = bundle.clone().unwrap();
            let remade = steps.iter().any(|step| matches!(step, Plan::Remake { .. }));
            prop_assert!(!remade, "at {now}: {steps:?}");
            prop_assert!(count(&held.authorities) <= 2 && count(&held.authority_key) <= 2);
            prop_assert!(again_at > now);
            told.push((now, held.authorities.clone()));
            let back = after(now, SignedDuration::from_mins(-heard));
            let known = told.iter().rev().find(|(at, _)| *at <= back).unwrap_or(&told[0]);
            prop_assert!(believed(&known.1, &held, "localhost", now), "at {now}");
            now = after(again_at, SignedDuration::from_mins(late[turn % late.len()]));
            if now > end {
                break;
            }
        }
    }

    /// However long nobody looked, and whatever the clock did, it comes to rest with something good.
    #[test]
    fn it_comes_to_rest_after_any_jump(days in prop::collection::vec(-8000i32..8000, 1..6)) {
        let mut now = start();
        let mut bundle = None;
        for days in days {
            now = after(now, DAY * days);
            if now.as_second() < 0 {
                now = start();
            }
            let (_, again_at) = settle(now, &mut bundle, &names());
            prop_assert!(again_at > now);
            let held = bundle.clone().unwrap();
            prop_assert!(believed(&held.authorities, &held, "127.0.0.1", now), "at {now}");
        }
    }

    /// Whatever is in the Secret, reading it is an error and no panic.
    #[test]
    fn any_bytes_are_read_without_panic(at in 0usize..4, cut in 0usize..800, byte: char) {
        let good = made(start());
        let spoil = |text: &str| {
            let mut text: Vec<char> = text.chars().collect();
            let cut = cut % text.len();
            text[cut] = byte;
            text.into_iter().collect::<String>()
        };
        let mut bad = good.clone();
        let part = [&mut bad.authorities, &mut bad.authority_key, &mut bad.certificate, &mut bad.key]
            .into_iter()
            .nth(at)
            .unwrap();
        *part = spoil(part);
        let _ = plan(start(), Some(&bad), &names());
    }
}
