# Completion of tickring for fish: tickring completion fish > ~/.config/fish/completions/tickring.fish
function __tickring_complete
	set -l words (commandline -opc)
	set -l cur (commandline -ct)
	set -e words[1]
	set -l lines (tickring complete fish -- $words "$cur" 2>/dev/null)
	if test "$lines[1]" = : # a file is meant
		set -l before (string match -r -- '^--[^=]*=' "$cur")
		printf '%s\n' "$before"(__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$cur"))
	else if set -q lines[1]
		printf '%s\n' $lines
	end
end
complete -c tickring -f -a '(__tickring_complete)'
