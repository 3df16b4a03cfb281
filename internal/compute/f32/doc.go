// Package f32 is the arithmetic on float32 slices under the executors, the store and the
// optimizers: element-wise loops, reductions, the passes of batch normalisation, conversions to and
// from 16 bits, gradient compression, the matrix product, and the register tiles that the
// convolutions are built of.
//
// # Paths
//
// Every function exists as plain Go (Portable) and, on amd64, in assembly for AVX2+FMA and AVX-512.
// Gradient compression, products of bfloat16 pairs and norms that are measured during an addition
// or update are in assembly for AVX-512 alone. On arm64 all is in assembly for NEON, products of
// bfloat16 pairs where the CPU has FEAT_BF16. The best path that the CPU has is taken when the
// program starts; the environment variable PARAGON_CPU (portable, avx2, avx512, amx or neon) lowers
// the choice, see Active. On the AMX path products of bfloat16 are those of the tile unit (see
// Tile.Blocks), all else is AVX-512's. Paths agree up to the rounding of float32 sums: they add in
// different orders and the assembly uses fused multiply-add. Element-wise results without a product
// followed by a sum, conversions, compression and the optimizers' updates (Update) agree bit for
// bit. On one path results repeat bit for bit.
//
// # Use
//
// Destinations come first and belong to the caller. Slices of one call have the length of the
// destination unless the function says otherwise; a shorter one is the caller's bug and panics. A
// destination may be the very same slice as a source, element-wise; it may not overlap one at
// another offset. Functions keep nothing and may be called together on different destinations. None
// allocates, but for the memory that a TopK keeps.
//
// Functions whose name ends in BFloat16 do the same to arrays that are stored as bfloat16
// ([]uint16). They are in assembly for AVX-512 and NEON, on AVX2 only Winograd's transforms, by way
// of float32. An Array is numbers stored in either way.
//
// Channel functions (ChannelSums, ScaleShift, ...) treat a slice as rows of c values, channel last:
// len(x) is a multiple of c, and the value at index i belongs to channel i mod c.
package f32

//go:generate -command avo env GOWORK=off go run -C gen . -pkg f32
//go:generate avo -set tile -out ../tile_amd64.s -stubs ../tile_stubs_amd64.go
//go:generate avo -set vector -out ../vector_amd64.s -stubs ../vector_stubs_amd64.go
//go:generate avo -set channel -out ../channel_amd64.s -stubs ../channel_stubs_amd64.go
//go:generate avo -set half -out ../half_amd64.s -stubs ../half_stubs_amd64.go
//go:generate avo -set compress -out ../compress_amd64.s -stubs ../compress_stubs_amd64.go
//go:generate avo -set update -out ../update_amd64.s -stubs ../update_stubs_amd64.go
//go:generate avo -set winograd -out ../winograd_amd64.s -stubs ../winograd_stubs_amd64.go
//go:generate avo -set bf16 -out ../bf16_amd64.s -stubs ../bf16_stubs_amd64.go
//go:generate avo -set rows -out ../rows_amd64.s -stubs ../rows_stubs_amd64.go
//go:generate avo -set stored -out ../stored_amd64.s -stubs ../stored_stubs_amd64.go
//go:generate avo -set squares -out ../squares_amd64.s -stubs ../squares_stubs_amd64.go
//go:generate avo -set stream -out ../stream_amd64.s -stubs ../stream_stubs_amd64.go
//go:generate avo -set rownorm -out ../rownorm_amd64.s -stubs ../rownorm_stubs_amd64.go
//go:generate avo -set columns -out ../columns_amd64.s -stubs ../columns_stubs_amd64.go
//go:generate avo -set keep -out ../keep_amd64.s -stubs ../keep_stubs_amd64.go
//go:generate avo -set math -out ../math_amd64.s -stubs ../math_stubs_amd64.go
//go:generate avo -set depthwise -out ../depthwise_amd64.s -stubs ../depthwise_stubs_amd64.go
//go:generate -command neon env GOWORK=off go run -C gen ./neon
//go:generate neon -set tile -out ../tile_arm64.s -stubs ../tile_stubs_arm64.go
//go:generate neon -set vector -out ../vector_arm64.s -stubs ../vector_stubs_arm64.go
//go:generate neon -set half -out ../half_arm64.s -stubs ../half_stubs_arm64.go
//go:generate neon -set channel -out ../channel_arm64.s -stubs ../channel_stubs_arm64.go
//go:generate neon -set stored -out ../stored_arm64.s -stubs ../stored_stubs_arm64.go
//go:generate neon -set compress -out ../compress_arm64.s -stubs ../compress_stubs_arm64.go
//go:generate neon -set update -out ../update_arm64.s -stubs ../update_stubs_arm64.go
//go:generate neon -set squares -out ../squares_arm64.s -stubs ../squares_stubs_arm64.go
//go:generate neon -set rows -out ../rows_arm64.s -stubs ../rows_stubs_arm64.go
//go:generate neon -set winograd -out ../winograd_arm64.s -stubs ../winograd_stubs_arm64.go
//go:generate neon -set stream -out ../stream_arm64.s -stubs ../stream_stubs_arm64.go
//go:generate neon -set rownorm -out ../rownorm_arm64.s -stubs ../rownorm_stubs_arm64.go
//go:generate neon -set math -out ../math_arm64.s -stubs ../math_stubs_arm64.go
//go:generate neon -set columns -out ../columns_arm64.s -stubs ../columns_stubs_arm64.go
//go:generate neon -set depthwise -out ../depthwise_arm64.s -stubs ../depthwise_stubs_arm64.go
