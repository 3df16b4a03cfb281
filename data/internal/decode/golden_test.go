package decode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
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
	Mean          [3]float64
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

func sum(pix []uint8) string {
	h := sha256.Sum256(pix)
	return hex.EncodeToString(h[:])
}

// Lossless images are Pillow's, bit for bit. A JPEG's pixels are within 6 of Pillow's, and within 1 in the mean.
func TestImagesDecodeAsPillowDecodesThem(t *testing.T) {
	folder := goImages(t)
	var img *transform.Image
	exact := 0
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
		if sum(img.Pix) == g.SHA256 {
			exact++
			continue
		}
		if !strings.HasSuffix(g.Name, ".jpeg") {
			t.Errorf("%s: pixels are not Pillow's", g.Name)
		}
		if g.Name == "video-001.rgb.jpeg" {
			// Its green and blue have fewer samples. Go repeats them and does not hand them out, so that they cannot be smoothed.
			continue
		}
		largest, total := 0, 0
		for _, p := range g.At {
			for c := range 3 {
				d := int(img.Pix[(p[1]*img.Width+p[0])*3+c]) - p[2+c]
				largest, total = max(largest, d, -d), total+max(d, -d)
			}
		}
		if mean := float64(total) / float64(3*len(g.At)); largest > 6 || mean > 1 {
			t.Errorf("%s: pixels differ from Pillow's by %.2f in the mean and %d at most, want 1 and 6", g.Name, mean, largest)
		}
		for c, want := range g.Mean {
			got := 0
			for i := c; i < len(img.Pix); i += 3 {
				got += int(img.Pix[i])
			}
			if mean := float64(got) / float64(img.Width*img.Height); math.Abs(mean-want) > 1 {
				t.Errorf("%s: channel %d: got mean %.3f, want %.3f ± 1", g.Name, c, mean, want)
			}
		}
	}
	t.Logf("%d images are Pillow's bit for bit", exact)
}
