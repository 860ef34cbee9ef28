//! Tables of objects as they come in and as the API server keeps them.
