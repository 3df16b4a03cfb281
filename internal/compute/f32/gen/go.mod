// The generator of package f32's assembly: a module of its own, so that nobody who builds the package needs avo.
module github.com/paragon-train/paragon/internal/compute/f32/gen

go 1.26.0

require github.com/mmcloughlin/avo v0.6.0

require (
	golang.org/x/mod v0.23.0 // indirect
	golang.org/x/sync v0.12.0 // indirect
	golang.org/x/tools v0.30.0 // indirect
)
