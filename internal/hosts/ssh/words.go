package ssh

import (
	"errors"
	"strings"
)

// Variable names the ssh client with its options, for launch and tune.
const Variable = "PARAGON_SSH"

// SplitWords splits s into words as a shell does, with quotes and backslashes but without
// expansions.
func SplitWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a single quote is not closed")
			}
			word.WriteString(s[i+1 : i+1+end])
			i, inWord = i+1+end, true
		case '"':
			inWord = true
			for i++; ; i++ {
				if i >= len(s) {
					return nil, errors.New("a double quote is not closed")
				}
				if s[i] == '"' {
					break
				}
				if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0 {
					i++
				}
				word.WriteByte(s[i])
			}
		case '\\':
			if i++; i >= len(s) {
				return nil, errors.New("it ends with a backslash")
			}
			word.WriteByte(s[i])
			inWord = true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// Quote is a command as one would type it in a shell: words that need it are quoted.
func Quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"\\$`;&|<>()*?[]{}~#!") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
