package data

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeTokens writes a file in two parts.
func writeTokens(t *testing.T, path string, format TokenFormat, tokens ...int32) {
	t.Helper()
	w, err := CreateTokens(path, format)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]int32{tokens[:1], tokens[1:]} {
		if err := w.WriteTokens(part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is there before Close", path)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.NumTokens() != int64(len(tokens)) {
		t.Errorf("got %d tokens, want %d", w.NumTokens(), len(tokens))
	}
	if err := w.WriteTokens(tokens); err == nil {
		t.Error("a closed writer takes tokens")
	}
}

func TestFilesOfTokensAreThoseOfNanoGPTAndLLMC(t *testing.T) {
	small, large := []uint32{1, 65535, 300, 7}, []uint32{1, 128_000, 300, math.MaxInt32}
	for _, c := range []struct {
		format TokenFormat
		tokens []uint32
		width  int
		want   []byte
	}{
		{FlatTokens, small, 2, flat(2, small...)},
		{WideTokens, large, 4, flat(4, large...)},
		{GPT2Tokens, small, 0, llmc(20240520, 1, 2, small...)},
		{Llama3Tokens, large, 0, llmc(20240801, 7, 4, large...)},
	} {
		path := filepath.Join(t.TempDir(), "train.bin")
		tokens := make([]int32, 4)
		for i, token := range c.tokens {
			tokens[i] = int32(token)
		}
		writeTokens(t, path, c.format, tokens...)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, c.want) {
			t.Errorf("format %d: got %d bytes that differ from the %d wanted", c.format, len(got), len(c.want))
		}
		back, err := OpenTokens(t.Context(), path, TokensConfig{Length: 3, Width: c.width})
		if err != nil {
			t.Fatal(err)
		}
		read := make([]int32, 4)
		if err := back.Read(t.Context(), 0, read); err != nil || [4]int32(read) != [4]int32(tokens) {
			t.Errorf("format %d: got %v, %v, want %v", c.format, read, err, tokens)
		}
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that is not whole must not look like one.
func TestATokenWithoutRoomLeavesNoFile(t *testing.T) {
	for _, c := range []struct {
		format TokenFormat
		token  int32
		want   string
	}{
		{FlatTokens, 65536, "token 2: got 65536, want 0 to 65535 in a format of 2 bytes: choose one with more"},
		{Llama3Tokens, -1, "token 2: got -1, want 0 to 4294967295"},
	} {
		folder := t.TempDir()
		w, err := CreateTokens(filepath.Join(folder, "train.bin"), c.format)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteTokens([]int32{1, 2, c.token}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if err := w.Close(); err == nil {
			t.Error("Close: got no error")
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v left, want nothing", left, err)
		}
	}
}

func TestAFormatThatThereIsNotIsAnError(t *testing.T) {
	if _, err := CreateTokens(filepath.Join(t.TempDir(), "x"), 9); err == nil {
		t.Error("got no error")
	}
}
