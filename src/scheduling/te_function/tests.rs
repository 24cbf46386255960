//! Tests of what texts define.
