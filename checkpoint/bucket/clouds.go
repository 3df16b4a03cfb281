//go:build !s3only

package bucket

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	"google.golang.org/api/googleapi"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/files/objects"
)

func init() {
	checkpoint.RegisterPlace("gs", open)
	objects.Register("gs", opener(func() dialect { return google }))
	checkpoint.RegisterPlace("azblob", open)
	objects.Register("azblob", opener(func() dialect { return azure }))
	for _, scheme := range []string{"az", "abfs"} {
		checkpoint.RegisterPlace(scheme, func(ctx context.Context, u *url.URL) (checkpoint.Place, error) {
			return open(ctx, azureURL(u))
		})
		objects.Register(scheme, func(ctx context.Context, u *url.URL) (objects.Store, error) {
			return opener(func() dialect { return azure })(ctx, azureURL(u))
		})
	}
}

// azureURL is the azblob:// URL of az://container/prefix and of
// abfs://container@account.dfs.core.windows.net/prefix.
func azureURL(u *url.URL) *url.URL {
	v := *u
	v.Scheme = "azblob"
	if u.User != nil {
		account, _, _ := strings.Cut(u.Hostname(), ".")
		query := u.Query()
		query.Set("storage_account", account)
		v.Host, v.User, v.RawQuery = u.User.Username(), nil, query.Encode()
	}
	return &v
}

// google tells versions apart by their generation.
var google = dialect{
	listed: func(o *blob.ListObject) string {
		var object storage.ObjectAttrs
		if !o.As(&object) {
			return ""
		}
		return strconv.FormatInt(object.Generation, 10)
	},
	stat: func(a *blob.Attributes) string {
		var object storage.ObjectAttrs
		if !a.As(&object) {
			return ""
		}
		return strconv.FormatInt(object.Generation, 10)
	},
	read: func(r *blob.Reader) string {
		var reader *storage.Reader
		if !r.As(&reader) || reader.Attrs.Generation == 0 {
			return ""
		}
		return strconv.FormatInt(reader.Attrs.Generation, 10)
	},
	beforeRead: func(version string, as func(any) bool) error {
		var object **storage.ObjectHandle
		generation, err := strconv.ParseInt(version, 10, 64)
		if err == nil && as(&object) {
			*object = (*object).If(storage.Conditions{GenerationMatch: generation})
		}
		return nil
	},
	status: func(err error) int {
		var answer *googleapi.Error
		if errors.As(err, &answer) {
			return answer.Code
		}
		return 0
	},
}

// azure tells versions apart by their ETags.
var azure = dialect{
	listed: func(o *blob.ListObject) string {
		var object container.BlobItem
		if !o.As(&object) || object.Properties == nil || object.Properties.ETag == nil {
			return ""
		}
		return strings.Trim(string(*object.Properties.ETag), `"`)
	},
	stat: func(a *blob.Attributes) string { return strings.Trim(a.ETag, `"`) },
	read: func(r *blob.Reader) string {
		var out azblob.DownloadStreamResponse
		if !r.As(&out) || out.ETag == nil {
			return ""
		}
		return strings.Trim(string(*out.ETag), `"`)
	},
	beforeRead: func(version string, as func(any) bool) error {
		var options *azblob.DownloadStreamOptions
		if version != "" && as(&options) {
			tag := azcore.ETag(`"` + version + `"`)
			options.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{IfMatch: &tag}}
		}
		return nil
	},
	status: func(err error) int {
		var answer *azcore.ResponseError
		if errors.As(err, &answer) {
			return answer.StatusCode
		}
		return 0
	},
}
