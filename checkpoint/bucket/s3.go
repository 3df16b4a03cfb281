package bucket

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/paragon-train/paragon/internal/files/objects"
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
		check:      checkEndpoint,
	}
}

// checkEndpoint resolves the address of requests to a bucket, as the SDK does before it sends each
// of them: its errors there are of a form that does not tell them from those that pass.
func checkEndpoint(ctx context.Context, b *blob.Bucket, name string) error {
	var client *s3.Client
	if !b.As(&client) {
		return nil
	}
	o := client.Options()
	if o.EndpointResolverV2 == nil {
		return nil
	}
	parameters := s3.EndpointParameters{
		Bucket: &name, Endpoint: o.BaseEndpoint, ForcePathStyle: &o.UsePathStyle, Accelerate: &o.UseAccelerate, UseArnRegion: &o.UseARNRegion,
		UseFIPS:                        aws.Bool(o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled),
		UseDualStack:                   aws.Bool(o.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled),
		DisableMultiRegionAccessPoints: &o.DisableMultiRegionAccessPoints, DisableS3ExpressSessionAuth: o.DisableS3ExpressSessionAuth,
	}
	if o.Region != "" {
		parameters.Region = &o.Region
	}
	if _, err := o.EndpointResolverV2.ResolveEndpoint(ctx, parameters); err != nil {
		return fmt.Errorf("bucket %q in region %q has no address: set AWS_REGION, or write ?region=eu-central-1 after the URL: %w", name, o.Region, err)
	}
	return nil
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
