//! The server under attack: its laws, and what hostile or unlucky clients get. One binary.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api {
    mod access;
    mod applies;
    mod caller;
    mod concurrency;
    mod definitions;
    mod ends;
    mod fanout;
    mod faults;
    mod garbage;
    mod hostile;
    mod pages;
    mod panics;
    mod routes;
    mod servings;
    mod time;
    mod views;
    mod watchers;
    mod wire;
}
