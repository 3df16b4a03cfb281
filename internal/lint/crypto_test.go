package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Cryptography is Go's standard library's: nobody audits ours. What looks like some of our own is refused: instructions for ciphers in assembly or in programs
// that write it, and packages, files, types and functions with the names of ciphers, hashes and key exchanges.
var (
	cipherInstruction = regexp.MustCompile(`\b(V?AES(ENC|DEC|IMC|KEYGEN)[A-Z]*|AES(E|D|MC|IMC)|V?PCLMUL[A-Z]*|SHA(1|256|512)(RNDS|MSG|NEXT|H|SU|C|P|M)[A-Z0-9]*|V?GF2P8[A-Z]*|VPMULL[0-9]?|PMULL)\b`)
	cipherName        = regexp.MustCompile(`(?i)(^|_)(aes|aesgcm|gcm|ghash|cha_?cha(20)?|poly1305|curve25519|x25519|ed25519|salsa20|blake[23][bs]?|hkdf|hmac|sha1|sha256|sha512|sha3|md5|rsa|ecdsa|ecdh)($|_|\d)`)
	humps             = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// cipherOf returns what in a file looks like a cipher; empty: nothing.
func cipherOf(file string, text []byte) (string, error) {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if cipherName.MatchString(base) || cipherName.MatchString(path.Base(path.Dir(file))) {
		return "its name", nil
	}
	if strings.HasSuffix(file, ".s") || strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") || strings.Contains(string(text), "mmcloughlin/avo") {
		if found := cipherInstruction.Find(text); found != nil {
			return "the instruction " + string(found), nil
		}
	}
	if !strings.HasSuffix(file, ".go") {
		return "", nil
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	names := []*ast.Ident{f.Name}
	for _, d := range f.Decls {
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
		if cipherName.MatchString(humps.ReplaceAllString(name.Name, "${1}_$2")) {
			return name.Name, nil
		}
	}
	return "", nil
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
		if got, err := cipherOf(tc.file, []byte(tc.text)); got != tc.want || err != nil {
			t.Errorf("%s with %q: got %q, %v, want %q", tc.file, tc.text, got, err, tc.want)
		}
	}
	root, files := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || rel == "bin" || rel == "out" {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(rel); ext != ".go" && ext != ".s" && ext != ".c" && ext != ".h" || rel == "internal/lint/crypto_test.go" {
			return nil
		}
		files++
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := cipherOf(rel, text)
		if found != "" {
			t.Errorf("%s: %s looks like cryptography of our own: use package crypto of the standard library", rel, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 1000 {
		t.Errorf("%d files were looked at, want them all", files)
	}
}
