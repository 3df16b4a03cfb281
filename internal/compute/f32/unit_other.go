//go:build !amd64

package f32

func blocks(a *BlockArgs) { blocksPortable(a) }

func tilesRefused() error { return nil }
