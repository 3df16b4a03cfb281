package image

import (
	"fmt"
	"io"
	"strings"

	"github.com/paragon-train/paragon/launch/internal/image"
)

// imageLimit is the size of an image, in bytes to send, above which launch image warns.
const imageLimit = 40e6

// write writes the image, and says what it is and how it is loaded.
func (o *imageOptions) write(img *image.Image, stdout, stderr io.Writer) error {
	if o.output != "" {
		if err := img.WriteArchive(o.output, o.tag); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	digest := img.Digest
	if o.layout != "" {
		var err error
		if digest, err = img.WriteLayout(o.layout, o.tag); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	fmt.Fprintf(stdout, "%s for %v, ID %s\n", o.tag, img.Platform, img.ID)
	for _, l := range img.Layers {
		fmt.Fprintf(stdout, "  %-20s %7.1f MB", l.Name, float64(l.Packed)/1e6)
		if l.Unpacked > 0 {
			fmt.Fprintf(stdout, ", %.1f MB unpacked", float64(l.Unpacked)/1e6)
		}
		fmt.Fprintln(stdout)
	}
	fmt.Fprintf(stdout, "  %-20s %7.1f MB\n", "in all", float64(img.Packed())/1e6)
	if o.output != "" {
		fmt.Fprintf(stdout, "Load %s with one of\n  podman load -i %[1]s\n  docker load -i %[1]s\n  ctr -n k8s.io images import %[1]s\n  kind load image-archive %[1]s\n", o.output)
	}
	if o.layout != "" {
		fmt.Fprintf(stdout, "%s in layout %s is %s\n", o.tag, o.layout, digest)
	}
	if img.Packed() > imageLimit {
		var layers []string
		for _, l := range img.Layers {
			layers = append(layers, fmt.Sprintf("%s %.1f MB", l.Name, float64(l.Packed)/1e6))
		}
		fmt.Fprintf(stderr, "launch: image: the image has %.1f MB, more than %.0f MB: %s; each new node pulls it before it can start; the build tags s3only and nobuckets leave the clouds' libraries out of a program (go run -tags s3only PACKAGE)\n", float64(img.Packed())/1e6, imageLimit/1e6, strings.Join(layers, ", "))
	}
	return nil
}
