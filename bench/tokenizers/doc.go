// Package tokenizers tests data/text beside github.com/tiktoken-go/tokenizer, which has the
// vocabularies of GPT-2 (as r50k) and of cl100k compiled in: they are written as the files that
// data/text reads, and both encode the same texts. It also measures how fast both are.
//
//	go test ./bench/tokenizers
//	go test ./bench/tokenizers -run xxx -bench . -cpu 1
//
// The package has tests alone: other programs do not compile tiktoken-go's 16 MB of vocabularies.
package tokenizers
