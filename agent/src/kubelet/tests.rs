use super::*;

#[test]
fn the_kubelet_is_asked_at_once_and_at_most_ten_times_a_second() {
    let start = Instant::now();
    let mut pace = Pace::default();
    let mut now = start;
    let mut asked = Vec::new();
    for _ in 0..100 {
        now = pace.take(now);
        asked.push(now.duration_since(start));
    }
    assert_eq!(asked[0], QUIET);
    for window in asked.windows(MOST_PER_SECOND + 1) {
        assert!(window[MOST_PER_SECOND] - window[0] >= Duration::from_secs(1), "{window:?}");
    }
    let late = now + Duration::from_secs(60);
    assert_eq!(pace.take(late), late + QUIET, "after a pause nobody waits");
}
