package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// commandOf renders a job with the command, and returns what a reader of YAML finds behind "--" in
// the scheduler's pod.
func commandOf(t *testing.T, command []string) []string {
	t.Helper()
	c := Config{Name: "job", Image: "train", Secret: "s", Workers: 1, Servers: 1, Slots: 1, User: 1, Drain: time.Second, Command: command}
	out, err := Render(c)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	documents := yaml.NewDecoder(bytes.NewReader(out))
	for {
		var job struct {
			Metadata struct{ Name string }
			Spec     struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []any } }
				}
			}
		}
		err := documents.Decode(&job)
		if errors.Is(err, io.EOF) {
			t.Fatalf("%q: no scheduler in\n%s", command, out)
		}
		if err != nil {
			t.Fatalf("%q: %v in\n%s", command, err, out)
		}
		if job.Metadata.Name != "job-scheduler" {
			continue
		}
		var words []string
		for _, word := range job.Spec.Template.Spec.Containers[0].Args {
			text, ok := word.(string)
			if !ok {
				t.Fatalf("%q: an argument became %v of type %[2]T", command, word)
			}
			words = append(words, text)
		}
		return words[slices.Index(words, "--")+1:]
	}
}

// Whatever a word looks like, it reaches the pod as it was given.
func TestArgumentsStayTheSameText(t *testing.T) {
	command := []string{
		"sh", "yes", "Off", "y", "null", "~", "1e3", "0x10", "0o7", "012", "1_000", ".5", "1:30", "2026-11-29", ".inf", "<<", "=", "true",
		"*a", "&a", "!a", "a: b", "a #b", "#a", "- a", "? a", "{a", "[a]", "|", ">", "%a", "@a", "`a`", `"a"`, `'a'`, "a:", ":", "",
		" a", "a ", "a\n", "\na", "a\n\nb\n\n", " a\nb", "\ta", "\ta\nb", "\t\n", "\n\ta", "a\r\nb", "\u0085\u2028\ufeff", "\x1b[1m\x7f", "\\n",
		"#!/bin/sh\n\tset -e\n  exec \"$0\"\n", strings.Repeat("long ", 1<<15), strings.Repeat("a", 1<<17),
	}
	want := make([]string, len(command))
	for i, word := range command {
		want[i] = strings.ReplaceAll(word, "$", "$$") // Kubernetes makes one of two
	}
	got := commandOf(t, command)
	if len(got) != len(want) {
		t.Fatalf("got %d words, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("word %.60q became %.60q", want[i], got[i])
		}
	}
	seed := time.Now().UnixNano()
	letters := []rune("\n\n\t\r aye01:#-\"'*&!|>%@`{[,?.~=<\\\u0085\u2028\ufeff\x7f\x01é_+")
	random := rand.New(rand.NewSource(seed))
	words := []string{"/p"}
	for range 2000 {
		word := make([]rune, random.Intn(8))
		for i := range word {
			word[i] = letters[random.Intn(len(letters))]
		}
		words = append(words, string(word))
	}
	if got := commandOf(t, words); !slices.Equal(got, words) {
		t.Errorf("seed %d: random words have changed", seed)
	}
}
