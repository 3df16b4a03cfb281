package decode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/transform"
)

// The photographs of scikit-learn, decoded and prepared for an evaluation, are what Pillow 9.4 with
// libjpeg-turbo 2.1.5 made of them.
func TestPhotographsAreThoseOfPillow(t *testing.T) {
	folder := filepath.Join(os.Getenv("PARAGON_TEST_DATA"), "photos")
	for _, c := range []struct {
		name, whole, crop string
		corner            [3]uint8
	}{
		{"china.jpg", "e701459344fd6979", "f63cbb0af0fe1f19", [3]uint8{189, 214, 244}},
		{"flower.jpg", "3202904ed246795b", "5eb3707bda0f4afa", [3]uint8{5, 42, 37}},
	} {
		encoded, err := os.ReadFile(filepath.Join(folder, c.name))
		if err != nil {
			t.Skip("skipped: the photographs of scikit-learn are not in photos of PARAGON_TEST_DATA: ", err)
		}
		img, err := decode.Image(nil, encoded, decode.Config{})
		if err != nil {
			t.Fatal(err)
		}
		sum := func() string {
			h := sha256.Sum256(img.Pix)
			return hex.EncodeToString(h[:8])
		}
		if got := sum(); got != c.whole {
			t.Errorf("%s: got pixels with sum %s, want %s", c.name, got, c.whole)
		}
		for _, tr := range []transform.Transform{transform.Resize(256), transform.CenterCrop(224)} {
			if img, err = tr.Apply(img, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := sum(); got != c.crop || [3]uint8(img.Pix[:3]) != c.corner {
			t.Errorf("%s: got a crop with sum %s and corner %v, want %s and %v", c.name, got, img.Pix[:3], c.crop, c.corner)
		}
	}
}
