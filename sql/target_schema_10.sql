-- Schema pgbaton, version 10: the way back of a switchover.

alter table pgbaton.replica
  add column way_back json;
comment on column pgbaton.replica.way_back is 'What a switchover makes here, before the first write of the application, so that changes stream back from here: slot, publications and tables of the replica on the other side, and, once it has been flipped (direction switched), the position that it begins at. Recorded before it is made.';
