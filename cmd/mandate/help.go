package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width of the narrowest usual terminal.
const helpWidth = 80

// help makes the help texts fit the terminal, and makes help fail for an unknown command, so that
// scripts can test by the exit code whether a command exists.
func (a *app) help(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root && root.Flags().NArg() > 0 { // cobra handles --help before it checks any argument
			a.helpErr = unknownCommand(root, root.Flags().Args())
			return
		}
		if !cmd.Runnable() && cmd.Flags().NArg() > 0 { // such as `mandate completion tcsh`
			a.helpErr = unknownCommand(cmd, cmd.Flags().Args())
			return
		}
		show(cmd, args)
	})
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			for _, cmd := range root.Commands() {
				if len(args) == 0 && cmd.IsAvailableCommand() {
					names = append(names, cmd.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, _, err := root.Find(args)
			if err != nil {
				return err
			}
			if cmd == root {
				if err := unknownCommand(root, args); err != nil {
					return err
				}
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	})
}

// unknownCommand is the Args of the root command: an argument that reaches it is not a command. It
// also serves commands that only have subcommands.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	typed := args[0]
	similar := slices.DeleteFunc(root.SuggestionsFor(typed), func(name string) bool {
		return !strings.ContainsAny(typed, name) // with a distance of 2, "ls" would be suggested for any short word
	})
	if len(similar) == 0 {
		return fmt.Errorf("unknown command %q", typed)
	}
	return fmt.Errorf("unknown command %q: did you mean %s?", typed, strings.Join(similar, " or "))
}

// noNames is the Args of a command that takes no names.
func noNames(instead string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("%q given, but %s takes no names%s", args[0], cmd.Name(), instead)
	}
}
