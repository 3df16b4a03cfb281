package text_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/data/text"
)

func ExampleOpen() {
	// A tokenizer of 420 tokens. That of GPT-2 is read in the same way: text.Open("gpt2").
	tokenizer, err := text.Open("testdata/gpt2.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := tokenizer.Append(nil, "the training of the model")
	var parts []string
	for _, token := range tokens {
		s, err := tokenizer.Token(token)
		if err != nil {
			fmt.Println(err)
			return
		}
		parts = append(parts, s)
	}
	fmt.Printf("%q\n", parts)
	s, err := text.Decode(tokenizer, tokens)
	fmt.Println(s, err)
	// Output:
	// ["the" " t" "ra" "in" "ing" " of" " the" " m" "o" "de" "l"]
	// the training of the model <nil>
}

func ExampleBPE_Allow() {
	tokenizer, err := text.Open("testdata/gpt2.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(tokenizer.Append(nil, "<|end|>")), "tokens")
	trusted, err := tokenizer.Allow("<|end|>")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(trusted.Append(nil, "<|end|>")), "token")
	// Output:
	// 6 tokens
	// 1 token
}

func ExampleDecoder() {
	d := text.NewDecoder(text.Bytes{})
	for _, token := range text.Bytes.Append(text.Bytes{}, nil, "né") {
		s, err := d.Add(token)
		fmt.Printf("%q %v\n", s, err)
	}
	// Output:
	// "n" <nil>
	// "" <nil>
	// "é" <nil>
}

// A text becomes a file of tokens, which training reads as windows.
func ExampleCopy() {
	folder, err := os.MkdirTemp("", "text")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "train.bin")
	w, err := data.CreateTokens(path, data.FlatTokens)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := text.Copy(w, strings.NewReader("to be, or not to be"), text.Bytes{}); err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	tokens, err := data.OpenTokens(ctx, path, data.TokensConfig{Length: 6, Vocabulary: 256})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()
	inputs, targets := make([]int32, 6), make([]int32, 6)
	for i := range tokens.Len() {
		if err := tokens.ReadPair(ctx, i, inputs, targets); err != nil {
			fmt.Println(err)
			return
		}
		in, _ := text.Decode(text.Bytes{}, inputs)
		out, _ := text.Decode(text.Bytes{}, targets)
		fmt.Printf("%q %q\n", in, out)
	}
	// Output:
	// "to be," "o be, "
	// " or no" "or not"
	// "t to b" " to be"
}

func ExampleDocuments() {
	// Two documents and the beginning of a third one; 0 ends each.
	inputs := []int32{7, 8, 0, 5, 0, 6}
	documents := make([]int32, len(inputs))
	text.Documents(inputs, 0, documents)
	fmt.Println(documents)
	// Output:
	// [0 0 0 1 1 2]
}
