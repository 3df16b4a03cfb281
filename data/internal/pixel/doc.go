// Package pixel has the inner loops of reading images: the inverse DCT of a block, smoothing of
// chroma, conversion to red, green and blue, and the two passes of resizing.
//
// Each is written in plain Go, which is the reference and serves every processor. On amd64 with
// AVX2 assembly gives the same bytes; avo writes it. The caller sees to lengths: functions panic,
// or read past the end, where a comment is not heeded.
package pixel

//go:generate env GOWORK=off go run -C gen . -pkg pixel -out ../pixel_amd64.s -stubs ../stubs_amd64.go
