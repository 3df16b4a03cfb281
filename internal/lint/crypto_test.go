package lint

import (
	"bytes"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Cryptography is Go's standard library's: nobody audits ours. What looks like some of our own is
// refused: instructions for ciphers in assembly or in programs that write it, and packages, files,
// types and functions with the names of ciphers, hashes and key exchanges.
var (
	cipherInstruction = regexp.MustCompile(`\b(V?AES(ENC|DEC|IMC|KEYGEN)[A-Z]*|AES(E|D|MC|IMC)|V?PCLMUL[A-Z]*|SHA(1|256|512)(RNDS|MSG|NEXT|H|SU|C|P|M)[A-Z0-9]*|V?GF2P8[A-Z]*|VPMULL[0-9]?|PMULL)\b`)
	cipherName        = regexp.MustCompile(`(?i)(^|_)(aes|aesgcm|gcm|ghash|cha_?cha(20)?|poly1305|curve25519|x25519|ed25519|salsa20|blake[23][bs]?|hkdf|hmac|sha1|sha256|sha512|sha3|md5|rsa|ecdsa|ecdh)($|_|\d)`)
	// cipherParts has a part of each of those names; an expression on each name would take
	// long.
	cipherParts = []string{"aes", "gcm", "ghash", "cha", "poly1305", "25519", "salsa20", "blake", "hkdf", "hmac", "sha", "md5", "rsa", "ecd"}
	humps       = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// cipherOf returns what in a file looks like a cipher; empty: nothing.
func cipherOf(file string, text []byte, syntax *ast.File) string {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if cipherName.MatchString(base) || cipherName.MatchString(path.Base(path.Dir(file))) {
		return "its name"
	}
	if strings.HasSuffix(file, ".s") || strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") || bytes.Contains(text, []byte("mmcloughlin/avo")) {
		if found := cipherInstruction.Find(text); found != nil {
			return "the instruction " + string(found)
		}
	}
	if syntax == nil {
		return ""
	}
	names := []*ast.Ident{syntax.Name}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					names = append(names, s.Name)
				}
			}
		}
	}
	for _, name := range names {
		lower := strings.ToLower(name.Name)
		if !slices.ContainsFunc(cipherParts, func(part string) bool { return strings.Contains(lower, part) }) {
			continue
		}
		if cipherName.MatchString(humps.ReplaceAllString(name.Name, "${1}_$2")) {
			return name.Name
		}
	}
	return ""
}

func TestThereIsNoCryptographyOfOurOwn(t *testing.T) {
	for _, tc := range []struct{ file, text, want string }{
		{"internal/gcm/seal.go", "package gcm", "its name"},
		{"internal/a/aes_amd64.s", "", "its name"},
		{"internal/a/mul_amd64.s", "\tVAESENC Z0, Z1, Z1\n", "the instruction VAESENC"},
		{"internal/a/mul_arm64.s", "\tAESE V0.B16, V1.B16\n", "the instruction AESE"},
		{"internal/a/mul_amd64.s", "\tVMULPS Z0, Z1, Z1\n", ""},
		{"internal/a/a.go", "package a\nfunc sealChaCha20() {}", "sealChaCha20"},
		{"internal/a/a.go", "package a\ntype aesGcm struct{}", "aesGcm"},
		{"internal/a/a.go", "package a\nfunc hmacOf() {}", "hmacOf"},
		{"internal/a/a.go", "package a\nimport \"crypto/hmac\"\nvar x = hmac.New", ""},
	} {
		var syntax *ast.File
		if strings.HasSuffix(tc.file, ".go") {
			_, syntax = parseText(t, tc.file, tc.text)
		}
		if got := cipherOf(tc.file, []byte(tc.text), syntax); got != tc.want {
			t.Errorf("%s with %q: got %q, want %q", tc.file, tc.text, got, tc.want)
		}
	}
	files := 0
	for _, f := range theRepository(t).files {
		if !slices.Contains([]string{".go", ".s", ".c", ".h"}, path.Ext(f.name)) || f.name == "internal/lint/crypto_test.go" {
			continue
		}
		files++
		if f.cipher != "" {
			t.Errorf("%s: %s looks like cryptography of our own: use package crypto of the standard library", f.name, f.cipher)
		}
	}
	if files < 1000 {
		t.Errorf("%d files were looked at, want them all", files)
	}
}
