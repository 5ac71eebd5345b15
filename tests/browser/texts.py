"""Text that a page must show, not obey."""

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script> "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x01 \u202egnp.exe " + "word" * 60
)
