# filled in when the room is built
