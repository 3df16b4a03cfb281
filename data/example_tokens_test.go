package data_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/data"
)

func ExampleOpenTokens() {
	folder, err := os.MkdirTemp("", "tokens")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	// As nanoGPT's prepare.py writes them: numbers of 16 bits, and nothing else.
	var file []byte
	for token := range uint16(13) {
		file = binary.LittleEndian.AppendUint16(file, 100+token)
	}
	if err := os.WriteFile(filepath.Join(folder, "train.bin"), file, 0o666); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	tokens, err := data.OpenTokens(ctx, filepath.Join(folder, "train.bin"), data.TokensConfig{Length: 4, Vocabulary: 50257})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()
	fmt.Println(tokens.NumTokens(), "tokens,", tokens.Len(), "windows")
	inputs, targets := make([]int32, 4), make([]int32, 4)

	// A training run takes the order of a sampler.
	for i := range tokens.Len() {
		if err := tokens.ReadPair(ctx, i, inputs, targets); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(inputs, targets)
	}
	// Output:
	// 13 tokens, 3 windows
	// [100 101 102 103] [101 102 103 104]
	// [104 105 106 107] [105 106 107 108]
	// [108 109 110 111] [109 110 111 112]
}
