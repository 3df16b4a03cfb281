package text

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// A Windows has the windows of a text whose tokens are in memory; data.Tokens are those of files.
// Its methods may be called from several goroutines at once.
//
// A window is Length tokens and the one behind them, which is the first one of the next window: the
// model's inputs are its first Length tokens, and the targets these shifted by one. So each token
// but the first is foretold once in an epoch whose order has each window once, as a sampler gives
// it to any number of workers. Tokens at the end that fill no window are left out.
type Windows[T Number] struct {
	tokens []T
	length int
}

// A Number is what a token may be kept as in memory.
type Number interface{ ~uint8 | ~uint16 | ~int32 }

// NewWindows returns the windows of tokens, which it keeps. With bytes a text is its own tokens, as
// those of Bytes.
func NewWindows[T Number](tokens []T, length int) (*Windows[T], error) {
	if length < 1 || len(tokens) <= length {
		return nil, fmt.Errorf("text: windows: got %d tokens for windows of %d, want a length of at least 1 and more tokens than that", len(tokens), length)
	}
	return &Windows[T]{tokens, length}, nil
}

// Len is the number of windows.
func (w *Windows[T]) Len() int { return (len(w.tokens) - 1) / w.length }

// Length is the number of inputs of a window, and of its targets.
func (w *Windows[T]) Length() int { return w.length }

// NumTokens is the number of tokens in all.
func (w *Windows[T]) NumTokens() int64 { return int64(len(w.tokens)) }

// ReadPair reads the inputs and the targets of window i, in [0, Len), Length tokens each.
func (w *Windows[T]) ReadPair(_ context.Context, i int, inputs, targets []int32) error {
	if i < 0 || i >= w.Len() {
		return fmt.Errorf("text: windows: got window %d, want 0 to %d", i, w.Len()-1)
	}
	if len(inputs) < w.length || len(targets) < w.length {
		return fmt.Errorf("text: windows: got room for %d inputs and %d targets, want %d each", len(inputs), len(targets), w.length)
	}
	window := w.tokens[i*w.length:][:w.length+1]
	for k := range w.length {
		inputs[k], targets[k] = int32(window[k]), int32(window[k+1])
	}
	return nil
}

// Fingerprint tells one text from another.
func (w *Windows[T]) Fingerprint() string {
	h := sha256.New()
	var buf []byte
	for at := 0; at < len(w.tokens); at += len(buf) / 4 {
		buf = buf[:0]
		for _, token := range w.tokens[at:min(at+1<<14, len(w.tokens))] {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(token))
		}
		h.Write(buf)
	}
	return fmt.Sprintf("tokens in memory:%d:%x", w.length, h.Sum(nil)[:16])
}

// Documents numbers the documents of a window from 0, as input of attention that is to stay within
// them (nn.AttentionConfig.Documents): a document ends with the token end, which belongs to it.
// documents has room for as many numbers as there are inputs.
//
// A window mostly begins within a document, which is document 0 of the window. Targets behind an
// end are of another document: data.TokensConfig.MaskAfter leaves them out of the loss.
func Documents(inputs []int32, end int32, documents []int32) {
	document := int32(0)
	for i, token := range inputs {
		documents[i] = document
		if token == end {
			document++
		}
	}
}
