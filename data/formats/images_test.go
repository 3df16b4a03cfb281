package formats_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
)

// WebP, BMP and TIFF decode to Pillow's pixels, bit for bit; testdata/images.py writes them. WebP's
// chroma is smoothed as libwebp does it.
func TestImagesDecodeAsPillowDecodesThem(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Images []struct {
			Name, SHA256  string
			Width, Height int
			Data          []byte
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Images) < 20 {
		t.Errorf("images.json: got %d images, want at least 20", len(file.Images))
	}
	for _, want := range file.Images {
		img, err := decode.Image(nil, want.Data, decode.Config{})
		if err != nil {
			t.Errorf("%s: %v", want.Name, err)
			continue
		}
		h := sha256.Sum256(img.Pix)
		if img.Width != want.Width || img.Height != want.Height || hex.EncodeToString(h[:]) != want.SHA256 {
			t.Errorf("%s: got %d×%d pixels with sum %x, want Pillow's %d×%d with %s", want.Name, img.Width, img.Height, h[:8], want.Width, want.Height, want.SHA256[:16])
		}
	}
}
