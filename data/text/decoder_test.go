package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestADecoderGivesWholeCharacters(t *testing.T) {
	d := NewDecoder(Bytes{})
	var got []string
	for _, b := range []byte("aé🙂") {
		s, err := d.Add(int32(b))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if s := strings.Join(got, "|"); s != "a||é||||🙂" {
		t.Errorf("got %s, want a||é||||🙂", s)
	}
	if _, err := d.Add(0xe2); err != nil {
		t.Fatal(err)
	}
	if s := d.End() + d.End(); s != "\ufffd" {
		t.Errorf("got %q at the end, want one U+FFFD", s)
	}
	_, err := d.Add(256)
	wantError(t, err, "text: decoder: got 256, want 0 to 255")
}

func FuzzDecoder(f *testing.F) {
	f.Add("aé🙂 \xff\xc3")
	f.Add("日本語\xe6\x97")
	var tokenizers []Tokenizer
	tokenizers = append(tokenizers, Bytes{}, tokenizerFor(f, "gpt2"))
	f.Fuzz(func(t *testing.T, text string) {
		var want strings.Builder
		for _, c := range text {
			want.WriteRune(c)
		}
		for _, tokenizer := range tokenizers {
			d := NewDecoder(tokenizer)
			var got strings.Builder
			for _, token := range tokenizer.Append(nil, text) {
				s, err := d.Add(token)
				if err != nil || !utf8.ValidString(s) {
					t.Fatalf("%q: got %q, %v", text, s, err)
				}
				got.WriteString(s)
			}
			got.WriteString(d.End())
			if got.String() != want.String() {
				t.Errorf("%q: got %q, want %q", text, got.String(), want.String())
			}
		}
	})
}
