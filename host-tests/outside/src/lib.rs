//! Nothing here: the tests are the example.
