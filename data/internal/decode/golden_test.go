package decode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/transform"
)

// A golden is what Pillow decodes an image to; testdata/golden.py writes it.
type golden struct {
	Name          string
	Width, Height int
	SHA256        string
	At            [][5]int
	Data          []byte
}

func goldens(t testing.TB) []golden {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Images []golden }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Images) < 80 {
		t.Fatalf("golden.json: got %d images, want at least 80", len(file.Images))
	}
	return file.Images
}

// goImages is the folder of the images that the standard library is tested with.
func goImages(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("skipped: the go command does not say where Go is: ", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "src", "image", "testdata")
	if _, err := os.Stat(filepath.Join(folder, "video-001.jpeg")); err != nil {
		t.Skip("skipped: this Go has no test images: ", err)
	}
	return folder
}

func (g golden) bytes(t testing.TB, folder string) []byte {
	t.Helper()
	if g.Data != nil {
		return g.Data
	}
	b, err := os.ReadFile(filepath.Join(folder, g.Name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every pixel is Pillow's.
func TestImagesDecodeAsPillowDecodesThem(t *testing.T) {
	folder := goImages(t)
	var img *transform.Image
	for _, g := range goldens(t) {
		var err error
		if img, err = decode.Image(img, g.bytes(t, folder), decode.Config{}); err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		if img.Width != g.Width || img.Height != g.Height || img.Channels != 3 {
			t.Errorf("%s: got %d×%d×%d, want %d×%d×3", g.Name, img.Width, img.Height, img.Channels, g.Width, g.Height)
			continue
		}
		if h := sha256.Sum256(img.Pix); hex.EncodeToString(h[:]) == g.SHA256 {
			continue
		}
		t.Errorf("%s: pixels are not Pillow's", g.Name)
		for _, p := range g.At {
			if got := img.Pix[(p[1]*img.Width+p[0])*3:][:3]; int(got[0]) != p[2] || int(got[1]) != p[3] || int(got[2]) != p[4] {
				t.Errorf("    at (%d, %d): got %v, want %v", p[0], p[1], got, p[2:])
			}
		}
	}
}
