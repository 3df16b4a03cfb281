package bucket

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/objects"
)

func init() {
	checkpoint.RegisterPlace("s3", open)
	objects.Register("s3", opener(amazon))
}

// amazon tells versions apart by their ETags.
func amazon() dialect {
	sentOnce := sentOnce()
	return dialect{
		listed: func(o *blob.ListObject) string {
			var object types.Object
			if !o.As(&object) {
				return ""
			}
			return unquoted(aws.ToString(object.ETag))
		},
		stat: func(a *blob.Attributes) string { return unquoted(a.ETag) },
		read: func(r *blob.Reader) string {
			var out s3.GetObjectOutput
			if !r.As(&out) {
				return ""
			}
			return unquoted(aws.ToString(out.ETag))
		},
		beforeRead: func(version string, as func(any) bool) error {
			var in *s3.GetObjectInput
			if as(&in) && version != "" {
				in.IfMatch = aws.String(`"` + version + `"`)
			}
			return sentOnce(as)
		},
		beforeList: sentOnce,
		status:     s3Status,
	}
}

// sentOnce makes the SDK send a request once, since the store above tries again, and keep idle
// connections for all that reads at once, of which it would keep ten.
func sentOnce() func(as func(any) bool) error {
	var once sync.Once
	var client *awshttp.BuildableClient
	return func(as func(any) bool) error {
		var options *[]func(*s3.Options)
		if !as(&options) {
			return nil
		}
		*options = append(*options, func(o *s3.Options) {
			o.RetryMaxAttempts = 1
			base, ok := o.HTTPClient.(*awshttp.BuildableClient)
			if !ok {
				return
			}
			once.Do(func() {
				client = base.WithTransportOptions(func(t *http.Transport) { t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 128 })
			})
			o.HTTPClient = client
		})
		return nil
	}
}

// unquoted is an ETag without quotes, which some servers leave out in lists.
func unquoted(tag string) string { return strings.Trim(tag, `"`) }

func s3Status(err error) int {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	// Without any credentials the SDK asks the machine's metadata service for the last ones.
	for err != nil {
		var operation *smithy.OperationError
		if !errors.As(err, &operation) {
			return 0
		}
		if operation.Service() == "ec2imds" {
			return http.StatusUnauthorized
		}
		err = operation.Err
	}
	return 0
}
