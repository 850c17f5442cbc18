package awsengine_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/engine/awsengine/fakeaws"
)

// TestFakeExpires: the fakes forget as DynamoDB does, late, and only what still
// says that its time is past.
func TestFakeExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = 48 * time.Hour
		f := newFakes(t, awsengine.Options{})
		f.db.TTL = func() time.Duration { return late }
		key := func(k string) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"of": &types.AttributeValueMemberS{Value: "x"}, "key": &types.AttributeValueMemberS{Value: k}}
		}
		put := func(k string, expires time.Time) {
			it := key(k)
			if !expires.IsZero() {
				it["expires"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(expires.Unix(), 10)}
			}
			_, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &fakeaws.Names.State, Item: it})
			ok(t, err)
		}
		there := func(k string, want bool) {
			t.Helper()
			out, err := f.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &fakeaws.Names.State, Key: key(k), ConsistentRead: aws.Bool(true)})
			ok(t, err)
			if is := len(out.Item) > 0; is != want {
				t.Errorf("%s after %s: %t, want %t", k, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), is, want)
			}
		}
		at := time.Now().Add(time.Hour)
		put("stays", time.Time{})
		put("goes", at)
		put("freed", at)
		put("freed", time.Time{})
		put("later", at)
		put("later", at.Add(time.Hour))
		time.Sleep(time.Hour + late - time.Second)
		for _, k := range []string{"stays", "goes", "freed", "later"} {
			there(k, true)
		}
		time.Sleep(time.Second)
		there("goes", false)
		there("later", true)
		time.Sleep(time.Hour)
		there("later", false)
		there("freed", true)
		there("stays", true)
	})
}
