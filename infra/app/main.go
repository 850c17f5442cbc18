// Command app is the CDK app of one tickring stack. The cdk command runs this program. context.go lists the settings
// for -c tickring:KEY=VALUE.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/tickring/tickring/infra"
)

func main() { os.Exit(run()) }

func run() (code int) {
	defer jsii.Close()
	defer func() {
		if r := recover(); r != nil { // a construct can only panic on errors
			fmt.Fprintln(os.Stderr, r)
			code = 1
		}
	}()
	app := awscdk.NewApp(nil)
	c, err := readContext(app.Node().GetAllContext(nil))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	warnings, err := c.choose(ctx, openAccount)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stack := infra.NewTickringStack(app, c.name, c.stackProps())
	warn(stack.Stack, warnings)
	if c.emulator {
		emulate(stack)
	}
	app.Synth(nil)
	return 0
}
