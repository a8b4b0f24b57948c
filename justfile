# List the recipes
help:
    @just --list

# Measure the quick manifest: the main job
quick *ARGS:
    cargo run --release -- run manifests/quick.toml {{ARGS}}

# Run the tests as the README says
test *ARGS:
    cargo test {{ARGS}}

# Everything that must hold before a change lands
ci:
    .ci/run

# Format, lint and build the documentation
lint:
    cargo fmt
    cargo clippy --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

# Write the committed JSON Schemas anew
schemas:
    for schema in manifest record run cell baseline night; do cargo run --quiet -- schema $schema > schemas/$schema.json; done

# Look at changed snapshots and accept or reject each
snapshots:
    cargo insta review

# What the hot paths cost
bench *ARGS:
    cargo bench {{ARGS}}

# Compare two combinations of client and server in alternation, as ratios; `just bench-instrument --help`
bench-instrument *ARGS:
    cargo bench --bench instrument -- {{ARGS}}
